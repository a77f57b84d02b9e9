"""What to do about a refusal of Google's, by its HTTP status; and how a person gets credentials."""

LOGIN_COMMAND = "gcloud auth application-default login"
TRANSIENT = (429, 500, 502, 503, 504)


def advised(sentence: str, status: int, role: str = "") -> str:
    """The sentence and what to do, where the status tells. role: has the permissions that a 403 lacks."""
    if status == 401:
        return f"{sentence}; run `{LOGIN_COMMAND}`"
    if status == 403:
        return f"{sentence}; have it granted{role and f' ({role})'}, or run `{LOGIN_COMMAND}` as who has it"
    return f"{sentence}; run it again" if status in TRANSIENT else sentence
