"""What is known of a stack, as data: the phase of the whole, each host, losses. JSON and screen show it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from infra.sentences import SentenceError
from infra.targets.hosts import Hosts, HostView
from infra.targets.phases import ABSENT, BY_WEIGHT, ENDED_EARLY


@dataclass(frozen=True)
class StackStatus:
    stack: str
    phase: str
    step: int | None
    steps: int | None
    hosts: tuple[HostView, ...]  # of an absent stack: those that are gone, as they ended
    unread: str = ""  # why it is not known how those ended

    @property
    def running(self) -> bool:
        return any(host.running for host in self.hosts)

    @property
    def reason(self) -> str:
        """Why the run ended, by the host that says most about it."""
        reasons = (
            f"host {host.index} {phase}: {host.reason}"
            for phase in ENDED_EARLY
            for host in self.hosts
            if host.phase == phase and host.reason
        )
        return next(reasons, "")

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"hosts": [_flat(host) for host in self.hosts]}


def stack_status(stack: str, hosts: Sequence[HostView]) -> StackStatus:
    """The status of a stack; phase `absent` where it has no hosts."""
    phases = {host.phase for host in hosts}
    phase = next((phase for phase in BY_WEIGHT if phase in phases), ABSENT)
    steps_done = [host.step for host in hosts if host.step is not None]
    return StackStatus(stack, phase, min(steps_done, default=None), hosts[0].steps if hosts else None, tuple(hosts))


def status_of(hosts: Hosts) -> StackStatus:
    """As the hosts are now; of a stack that has none, as the run's record has those that are gone.

    Hosts that have ended and know no step, as pods, are as far as that record has them.
    """
    views = hosts.states()
    if any(view.running or view.step is not None for view in views):
        return stack_status(hosts.stack, _with_mfu(hosts, views))
    try:
        left = hosts.left_behind()
    except SentenceError as error:
        return replace(stack_status(hosts.stack, views), unread=str(error))
    if not views:
        return replace(stack_status(hosts.stack, _with_mfu(hosts, left)), phase=ABSENT)
    recorded = {view.index: view for view in left}
    return stack_status(hosts.stack, _with_mfu(hosts, [view.saying(recorded.get(view.index)) for view in views]))


def _with_mfu(hosts: Hosts, views: Sequence[HostView]) -> Sequence[HostView]:
    """By the peak of the stack's accelerator, of which processors have none."""
    spec = hosts.run_spec()
    if spec is None or spec.platform == "cpu" or not any(view.tflops_per_s for view in views):
        return views
    peak = _peak_tflops(hosts.stack)
    return [replace(view, mfu=view.tflops_per_s / peak) if view.tflops_per_s and peak else view for view in views]


def _peak_tflops(stack: str) -> float | None:
    """Of one device, dense bf16; None where no source says it, or the stack has no file any more."""
    from infra.stack_file.settings import Settings, SettingsError, any_from_file  # on demand: they cost 0.2 s

    try:
        settings = any_from_file(stack)
    except SettingsError:
        return None
    if not isinstance(settings, Settings) or settings.row.peak_bf16_tflops is None:
        return None
    return settings.row.peak_bf16_tflops / settings.row.devices_per_chip


def _flat(host: HostView) -> dict[str, object]:
    """A host as one JSON object: what its target alone knows stands beside the rest."""
    fields = asdict(host)
    detail = fields.pop("detail")
    return fields | detail


def cells(host: HostView) -> tuple[str, ...]:
    """What one line says of a host."""
    step = f"step {host.step}/{host.steps}" if host.step is not None else ""
    loss = f"loss {host.loss:.3f}" if host.loss is not None else ""
    eta = f"ETA {duration(host.eta_s)}" if host.eta_s is not None else ""
    if host.still_since is not None:
        eta = f"nothing has ended since {datetime.fromtimestamp(host.still_since):%H:%M:%S}"
    unsaved = f"{host.step - host.saved} steps unsaved" if host.running and host.step and host.saved is not None else ""
    by = f"started by {host.started_by}" if host.started_by else ""
    return (f"host {host.index}", host.phase, step, unsaved, loss, speed(host), eta, host.reason, by)


def speed(host: HostView) -> str:
    """What is known of it. FLOPs that have no peak to be compared with do not change what anybody does meanwhile."""
    said = [f"{host.tokens_per_s:,.0f} tokens/s"] if host.tokens_per_s is not None else []
    said += [f"{_digits(host.step_s)} s a step"] if host.step_s is not None else []
    if host.tflops_per_s is not None and (host.mfu is not None or not host.running):
        said.append(f"{_digits(host.tflops_per_s)} TFLOP/s a device")
    said += [f"MFU {host.mfu:.1%}"] if host.mfu is not None else []
    return ", ".join(said)


def _digits(value: float) -> str:
    """Three of them, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def line(host: HostView) -> str:
    return " · ".join(cell for cell in cells(host) if cell)


def duration(seconds: float) -> str:
    """`3m07s` or `2h05m`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


@dataclass(frozen=True)
class Losses:
    """Nats per token. `train` and `heldout` pair a step with a loss."""

    train: tuple[tuple[int, float], ...]
    heldout: tuple[tuple[int, float], ...]


def losses(metrics: Iterable[Mapping[str, float]]) -> Losses:
    """Training and held-out losses of a run; a step that ran twice (after a kill) counts as it ran last."""
    logged = list(metrics)

    def of(name: str) -> tuple[tuple[int, float], ...]:
        return tuple(sorted({int(values["step"]): values[name] for values in logged if name in values}.items()))

    return Losses(of("learning/loss"), of("eval/avg_loss"))
