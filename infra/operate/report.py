"""What is known of a stack, as data: the phase of the whole, a row per host, losses. Pure; JSON and screen show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from infra.targets.local.host_directory import FINISHED, LOST, RUNNING, HostState

# The stack's phase is the first of these that any of its hosts is in.
_ORDER = ("failed", LOST, "interrupted", "bootstrapping", "starting", "compiling", "training", FINISHED)
ABSENT = "absent"


@dataclass(frozen=True)
class HostRow:
    """One host. `step` of `steps` are done; speeds are of the whole run, in tokens of the global batch per second."""

    index: int
    phase: str
    step: int | None
    steps: int | None
    loss: float | None
    tokens_per_s: float | None
    eta_s: float | None
    pid: int | None
    reason: str


@dataclass(frozen=True)
class StackReport:
    stack: str
    phase: str
    step: int | None
    steps: int | None
    hosts: tuple[HostRow, ...]

    @property
    def running(self) -> bool:
        return any(host.phase in RUNNING for host in self.hosts)

    @property
    def reason(self) -> str:
        """Why the run ended, by the host that says most about it."""
        told = [host for phase in _ORDER[:3] for host in self.hosts if host.phase == phase and host.reason]
        return f"host {told[0].index} {told[0].phase}: {told[0].reason}" if told else ""

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def stack_report(stack: str, hosts: Sequence[HostState]) -> StackReport:
    """The report of a stack; phase `absent` where it has no hosts."""
    rows = tuple(_row(host) for host in hosts)
    phases = {row.phase for row in rows}
    phase = next((phase for phase in _ORDER if phase in phases), ABSENT)
    steps_done = [row.step for row in rows if row.step is not None]
    return StackReport(stack, phase, min(steps_done, default=None), rows[0].steps if rows else None, rows)


def _row(host: HostState) -> HostRow:
    status = host.status
    running = host.phase in RUNNING
    return HostRow(
        index=host.record.index,
        phase=host.phase,
        step=status.step if status else None,
        steps=status.steps if status else None,
        loss=status.loss if status else None,
        tokens_per_s=status.tokens_per_s if status else None,
        eta_s=status.eta_s if status and running else None,
        pid=host.record.pid if running else None,
        reason=host.reason,
    )


@dataclass(frozen=True)
class Losses:
    """Nats per token. `train` and `heldout` pair a step with a loss."""

    train: tuple[tuple[int, float], ...]
    heldout: tuple[tuple[int, float], ...]


def losses(metrics: Iterable[Mapping[str, float]]) -> Losses:
    """Training and held-out losses of a run; a step that ran twice (after a kill) counts as it ran last."""
    train: dict[int, float] = {}
    heldout: dict[int, float] = {}
    for line in metrics:
        step = int(line["step"])
        if "learning/loss" in line:
            train[step] = line["learning/loss"]
        if "eval/avg_loss" in line:
            heldout[step] = line["eval/avg_loss"]
    return Losses(tuple(sorted(train.items())), tuple(sorted(heldout.items())))
