"""What a host in a VM says of itself: a guest attribute that its report service writes (report.sh). Pure.

Owns its name, what is in it and what it means for whoever waits. Refuses to own how it is fetched: a target's API does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from infra.targets.phases import BOOTING
from training import host_status
from training.host_status import HostStatus, Phase

ATTRIBUTE = "slipway/status"  # namespace and key
_BEFORE_READY = (BOOTING, Phase.BOOTSTRAPPING)


class HostFailedError(Exception):
    """A host has failed, in one sentence."""


@dataclass(frozen=True)
class Report:
    """`status` is None of a host that boots, and of a later release's that is not read here."""

    phase: str
    reason: str
    bundle: str
    status: HostStatus | None = None


def parse(value: str) -> Report | None:
    """None for half a report: the host says it again."""
    try:
        document: Any = json.loads(value)
        status = document["status"]
        words = str(status["phase"]), str(status.get("reason") or ""), str(document.get("bundle", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    try:
        return Report(*words, host_status.of(status))
    except (ValueError, KeyError, TypeError):
        return Report(*words)


def ready_hosts(values: Iterable[str]) -> int:
    """How many hosts have said that training has begun (or is over). Raises HostFailedError for one that has failed."""
    reports = [report for report in map(parse, values) if report]
    for report in reports:
        if report.phase == Phase.FAILED:
            raise HostFailedError(f"a host has failed: {report.reason}; mend it and run `pulumi up` again")
    return sum(report.phase not in _BEFORE_READY for report in reports)
