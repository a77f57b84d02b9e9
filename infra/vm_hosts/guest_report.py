"""What a host in a VM says of itself: a guest attribute that its report service writes (report.sh). Pure.

Owns its name, what is in it and what it means for whoever waits. Refuses to own how it is fetched: a target's API does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from infra.targets.phases import BOOTING
from training import host_status
from training.exit_codes import ExitCode
from training.host_status import HostStatus, Phase

ATTRIBUTE = "slipway/status"  # namespace and key
_BEFORE_READY = (BOOTING, Phase.BOOTSTRAPPING, Phase.STARTING)
_FINAL = (None, ExitCode.BAD_INPUT, ExitCode.REPEATED)  # of what has failed; after any other systemd starts it again


@dataclass(frozen=True)
class Report:
    """`status` is None of a host that boots, and of a later release's that is not read here.

    bundle: which one it runs; empty of a host that has not learned it yet.
    """

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


@dataclass(frozen=True)
class HostFailure:
    """Of one host. `final`: nothing starts it again; `start` tells its starts apart."""

    host: int
    reason: str
    final: bool
    start: float = 0.0


@dataclass(frozen=True)
class Readiness:
    """Of one slice's hosts, by number: where training has begun (or is over), with this bundle or with another."""

    ready: tuple[int, ...]
    behind: tuple[int, ...]
    silent: tuple[int, ...]  # no word yet
    failures: tuple[HostFailure, ...]


def readiness(values: Sequence[str], bundle: str) -> Readiness:
    """What hosts have said, in their order; `bundle` is the one that they shall run, empty where any will do."""
    reports = list(enumerate(map(parse, values)))
    begun = [
        (host, report) for host, report in reports if report and report.phase not in (*_BEFORE_READY, Phase.FAILED)
    ]
    return Readiness(
        ready=tuple(host for host, report in begun if bundle in ("", report.bundle)),
        behind=tuple(host for host, report in begun if bundle not in ("", report.bundle)),
        silent=tuple(host for host, report in reports if report is None),
        failures=tuple(
            _failure(host, report, bundle) for host, report in reports if report and report.phase == Phase.FAILED
        ),
    )


def _failure(host: int, report: Report, bundle: str) -> HostFailure:
    status = report.status
    if bundle and report.bundle not in ("", bundle):  # a host that does not know its bundle yet asks again for it
        reason = f"{report.reason} (with bundle {report.bundle}; it takes {bundle} at its next boot)"
        return HostFailure(host, reason, final=True)
    if status is None:
        return HostFailure(host, report.reason, final=True)
    return HostFailure(host, report.reason, status.exit_code in _FINAL, status.started)
