"""How a person gets credentials for Google Cloud, as every sentence that lacks them says it."""

LOGIN_COMMAND = "gcloud auth application-default login"
