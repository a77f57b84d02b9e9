"""Whether a value of a job file is a secret, by its name or its looks. Pure.

Owns what is never written into a stack or shown. Which secrets hosts can be given is infra/host_secrets.py.
"""

from __future__ import annotations

import re

from infra.host_secrets import host_secret
from infra.importing.draft import Draft

HIDDEN = "(not shown)"
_NAME = re.compile(
    r"(.*_)?(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH)(_.*)?"
    r"|.*_KEY(_ID)?",
    re.IGNORECASE,
)
# As Hugging Face, GitHub, GitLab, OpenAI, Amazon, Google, Slack and W&B make them, and keys in PEM.
_TOKEN = re.compile(
    r"hf_\w{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{20,}|AKIA[0-9A-Z]{12,}|AIza[\w-]{30,}"
    r"|xox[abprs]-[\w-]{10,}|ya29\.[\w-]{20,}|(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(.*-----END [A-Z ]*PRIVATE KEY-----)?",
    re.DOTALL,
)
_NO_SECRETS = re.compile(
    r".*(TOKENIZER|MAX_TOKENS|TOKENS_PER|NUM_TOKENS|GOOGLE_APPLICATION_CREDENTIALS).*", re.IGNORECASE
)
_SHORTEST = 4  # of a value that is looked for in other texts


def take(name: str, value: str, draft: Draft) -> bool:
    """Whether a variable or argument is a secret, which the draft then knows."""
    named = bool(value) and bool(_NAME.fullmatch(name)) and not _NO_SECRETS.fullmatch(name)
    if named or _TOKEN.search(value):
        draft.secrets.add(value)
        return True
    return False


def masked(text: str, draft: Draft) -> str:
    """A text without the secrets that are known, and without what looks like one."""
    for secret in sorted(draft.secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, HIDDEN)
    return _TOKEN.sub(HIDDEN, text)


def advice(name: str, draft: Draft) -> str:
    """How hosts get it instead."""
    known = {host_secret(each, "").variable: each for each in ("wandb", "huggingface")}
    secret = known.get(name.upper(), known.get(f"{name.upper()}_TOKEN", name.lower().replace("_", "-")))
    secret = "huggingface" if name.lower() == "hf_access_token" else secret
    if "host_secrets" not in draft.known:
        return "a secret stays out of stacks; give it to the hosts yourself"
    return (
        f"a secret is in no stack: put it into Secret Manager as the foundation's `{secret}` (docs/first-project.md), "
        f"and write `slipway:host_secrets: [{secret}]`; change it, since this file had it"
    )
