"""What `slipway doctor` answers, one thing at a time, and what a stack needs of Google. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from infra.google_cloud.google_project import GoogleProject


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


type Question = Callable[[GoogleProject], Finding]


@dataclass(frozen=True)
class Needs:
    """What a stack of one target needs of its project.

    services: without .googleapis.com. permissions: each with the role that allows it. enables_services: `up` enables
    them itself. more: further questions, by the name of what they ask about.
    """

    services: tuple[str, ...]
    permissions: Mapping[str, str]
    enables_services: bool = False
    more: Mapping[str, Question] = field(default_factory=dict[str, Question])
