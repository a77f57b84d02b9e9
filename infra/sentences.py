"""What ends a command of ours with one sentence and no traceback (infra/commands/main.py)."""


class SentenceError(Exception):
    """What went wrong, and what to do next, in one sentence."""
