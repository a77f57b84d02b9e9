"""What to do about a refusal of Google's, by its HTTP status; and how a person gets credentials."""

LOGIN_COMMAND = "gcloud auth application-default login"
TRANSIENT = (429, 500, 502, 503, 504)


def advised(sentence: str, status: int | None, role: str = "") -> str:
    """The sentence and what to do, where the status tells. role: has the permissions that a 403 lacks."""
    login = f"run `{LOGIN_COMMAND}`"
    granted = f"have it granted{role and f' ({role})'}, or {login} as who has it"
    advice = {401: login, 403: granted, **dict.fromkeys(TRANSIENT, "run it again")}.get(status or 0)
    return f"{sentence}; {advice}" if advice else sentence
