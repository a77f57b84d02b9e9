"""What a target says where it does not do what was asked: one sentence, which every command ends with."""

from __future__ import annotations

from infra.sentences import SentenceError

TRAINS_NOTHING = "trains nothing: it holds what other stacks stand on"  # a stack that was asked to


class TargetError(SentenceError):
    """A target cannot do what was asked of it; why, and what to do instead, in one sentence."""


class NotOfferedError(TargetError):
    """A target does not have what was asked for."""
