"""`Hosts` whose run keeps its own record, in a bucket or a directory: what is known of them when none of them is there.

Owns that it is asked of the run's place. Refuses to own how it is read (run_history.py) and the hosts that are there
(the targets).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from infra.runs import run_history, run_plan
from infra.stack_file.settings import Settings
from infra.targets.hosts import Hosts, HostView
from training.run_spec import RunSpec


class RecordedHosts(Hosts):
    """`run_spec` is the stack file's, which the next `up` gives them."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.stack)
        self._recorded = settings

    def left_behind(self) -> Sequence[HostView]:
        return run_history.last_words(self.run_spec())

    def run_spec(self) -> RunSpec:
        return run_plan.of_stack(self._recorded)

    def metrics(self, index: int) -> Iterator[dict[str, float]]:
        return run_history.steps(self.run_spec(), index)
