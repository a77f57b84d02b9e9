"""`Hosts` of target tpu-vm: what each host has last reported (infra/vm_hosts/guest_report.py), asked of its node.

What hosts that are gone have left is read where the run is (infra/runs/recorded_hosts.py). Reads, and changes nothing:
nodes are the stack's by name and label, whichever clone has asked for them. Refuses to own a host's logs and its end,
for which nothing is sent to hosts yet. Not run on real hardware.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from infra import durations
from infra.google_cloud.asking import asking
from infra.names import STACK_LABEL, stack_label
from infra.runs.recorded_hosts import RecordedHosts
from infra.stack_file.settings import from_file
from infra.targets.hosts import HostView
from infra.targets.phases import BOOTING, LOST, RUNNING
from infra.targets.tpu_vm.provider import tpu_api, tpu_nodes
from infra.targets.tpu_vm.settings import TpuVmSettings
from infra.vm_hosts import guest_report

_ANSWERS_S = 60.0
_FRESH_S = 10.0  # of an answer, and twice as many seconds as calls: `watch` asks twice a second
_SILENT_S = 300.0  # a host reports each minute


class TpuVmHosts(RecordedHosts):
    """The hosts of one stack."""

    def __init__(self, stack: str, now: Callable[[], float] = time.monotonic) -> None:
        settings = from_file(stack)
        assert isinstance(settings, TpuVmSettings)
        super().__init__(settings)
        self._now = now
        self._settings = settings
        self._views: Sequence[HostView] = ()
        self._fresh_until = 0.0

    def states(self) -> Sequence[HostView]:
        if self._now() >= self._fresh_until:
            self._views = self._ask()
            self._fresh_until = self._now() + max(_FRESH_S, 2.0 * (1 + self._settings.slices))
        return self._views

    def _ask(self) -> list[HostView]:
        settings, label = self._settings, stack_label(self.stack)
        with asking(lambda _: None, _ANSWERS_S) as context:
            nodes = {
                tpu_nodes.identifier(node): node
                for node in tpu_api.nodes(context, f"projects/{settings.project}/locations/{tpu_api.ALL_ZONES}")
                if node.labels.get(STACK_LABEL) == label
            }
            return [
                view
                for number, name in enumerate(settings.nodes)
                if name in nodes
                for view in _views(
                    number,
                    nodes[name],
                    settings.row.hosts,
                    tpu_api.guest_attributes(context, nodes[name].name, guest_report.ATTRIBUTE),
                )
            ]


def _views(number: int, node: Any, hosts: int, said: Sequence[str]) -> list[HostView]:
    """Of one slice, whose hosts have said that."""
    values = [*said, *[""] * hosts][:hosts]
    return [_view(number, number * hosts + worker, worker, node, values[worker]) for worker in range(hosts)]


def _view(number: int, index: int, worker: int, node: Any, value: str) -> HostView:
    report, state = guest_report.parse(value), node.state.name
    status = report.status if report else None
    phase, reason = (report.phase, report.reason) if report else (BOOTING, "")
    spoken = status.updated if status else node.create_time.timestamp() if node.create_time else time.time()
    age_s = max(0.0, time.time() - spoken)
    if phase in RUNNING and state in tpu_nodes.LOST:
        phase, reason = LOST, f"its node is {state}"
    elif phase in RUNNING and status and age_s > _SILENT_S:
        reason = f"has not reported for {durations.text(int(age_s) // 60 * 60)}"
    name, bundle = f"{tpu_nodes.identifier(node)} worker {worker}", report.bundle if report else ""
    return HostView(index, number, name, phase, reason, bundle, age_s).saying(status)
