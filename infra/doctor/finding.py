"""One thing that a stack needs, and whether it is there. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    OK = "ok"
    WRONG = "wrong"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Finding:
    """`said` is one sentence; of what is wrong it has the fix, of what was not asked the reason."""

    what: str
    verdict: Outcome
    said: str


def ok(what: str, said: str) -> Finding:
    return Finding(what, Outcome.OK, said)


def wrong(what: str, said: str) -> Finding:
    return Finding(what, Outcome.WRONG, said)


def not_asked(what: str, why: str) -> Finding:
    return Finding(what, Outcome.NOT_ASKED, why)
