"""What day 2 knows of a stack's hosts (`HostView`) and does with them (`Hosts`), whatever they are.

A target whose hosts can be reached has a subclass of `Hosts`; what it leaves out is a sentence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from infra.targets.errors import NotOfferedError
from infra.targets.phases import RUNNING
from infra.targets.places import below
from training.host_status import HostStatus
from training.run_spec import RunSpec


@dataclass(frozen=True)
class HostView:
    """One host. `step` of `steps` are done; `tokens_per_s` are tokens of the global batch, over the newest steps.

    `step_s` is what a step of the run takes usually (training/step_times.py), `tflops_per_s` the model's FLOPs of one
    device in it, `mfu` that over the device's bf16 peak, where a source says it.

    `index` counts over all slices. `phase` is the host's own word, or `lost`. `age_s` is the time since its last word,
    or since its start where it has not spoken yet. `still_since`: when anything last ended in a training that may be
    standing still, in seconds since the epoch. `saved`: steps in the newest checkpoint. `started_by`: who ran `up`,
    where its run's record says so. `detail` is what only its target knows, for people and programs.
    """

    index: int
    slice: int
    name: str
    phase: str
    reason: str
    bundle: str
    age_s: float
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    step_s: float | None = None
    tflops_per_s: float | None = None
    mfu: float | None = None
    eta_s: float | None = None
    still_since: float | None = None
    saved: int | None = None
    started_by: str = ""
    detail: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def running(self) -> bool:
        return self.phase in RUNNING

    def saying(self, status: HostStatus | HostView | None) -> HostView:
        """With how far its training is, by its own word, or by what its run's record has of it."""
        if status is None:
            return self
        known = ("step", "steps", "loss", "tokens_per_s", "step_s", "tflops_per_s", "saved")
        progress = {name: getattr(status, name) for name in known}
        now = {name: getattr(status, name) for name in ("eta_s", "still_since")} if self.running else {}
        return replace(self, **progress, **now)


class Hosts(ABC):
    """The hosts of one stack. Raises LookupError for an index that does not exist."""

    def __init__(self, stack: str) -> None:
        self.stack = stack

    @abstractmethod
    def states(self) -> Sequence[HostView]:
        """Every host, by index; empty where nothing is deployed."""

    def left_behind(self) -> Sequence[HostView]:
        """Hosts that are gone, as their run's record has them. Raises SentenceError where that cannot be read."""
        return ()

    @abstractmethod
    def run_spec(self) -> RunSpec | None:
        """What the hosts run; None where nothing is deployed."""

    def run_location(self) -> str | None:
        """Where the current run keeps checkpoints, metrics and its record: a path or a URL."""
        spec = self.run_spec()
        return below(spec.output_directory, spec.run_name) if spec else None

    def metrics(self, index: int) -> Iterator[dict[str, float]]:
        """What the host's training logged of the current run, one mapping per logged step, oldest first.

        Raises SentenceError where that cannot be read.
        """
        return iter(())

    def logs(self, index: int, follow: bool) -> Iterator[str]:
        """Lines of the host's log; with `follow` until it ends."""
        self._not_offered("logs")

    def stop(self, progress: Callable[[str], None]) -> None:
        """Save a checkpoint and end training on all hosts."""
        self._not_offered("stop")

    def start(self) -> None:
        """Start hosts that are not running; training resumes at its last checkpoint."""
        self._not_offered("start")

    def replay(self, step: int) -> int:
        """Do a step of the current run again, print it beside what is recorded, and return an exit code."""
        self._not_offered("replay")

    def kept_runs(self) -> Sequence[str]:
        """Where each run of the stack lies, by name, also of runs before and after `pulumi destroy`."""
        self._not_offered("purge")

    def delete_kept_runs(self) -> None:
        """Delete them all."""
        self._not_offered("purge")

    def check_offered(self, verb: str) -> None:
        """Raises NotOfferedError for a verb that the target leaves out, before its hosts are asked for anything."""
        method = "kept_runs" if verb == "purge" else verb
        if getattr(type(self), method) is getattr(Hosts, method):
            self._not_offered(verb)

    def _not_offered(self, verb: str) -> NoReturn:
        raise NotOfferedError(f"the target of stack '{self.stack}' does not offer `{verb}` (docs/runbook.md)")
