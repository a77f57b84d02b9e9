"""What day 2 knows of a stack's hosts (`HostView`) and does with them (`Hosts`), and the `Hosts` of a stack.

A target implements both in its folder (infra/targets/<target>/hosts.py): `open_hosts(stack) -> Hosts` where its hosts
can be reached, `store(settings) -> str`, where they read wheels and bundles. Refuses to know what a host is made of: a
process, a machine, a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

from infra.operate.phases import RUNNING
from infra.paths import stack_file
from infra.stack_file import stack_yaml
from infra.targets import registry
from infra.targets.registry import Target
from training.run_spec import RunSpec


@dataclass(frozen=True)
class HostView:
    """One host. `step` of `steps` are done; speeds are of the whole run, in tokens of the global batch per second.

    `index` counts over all slices. `phase` is the host's own word, or `lost`. `age_s` is the time since its last word,
    or since its start where it has not spoken yet. `detail` is what only its target knows, for people and programs.
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
    eta_s: float | None = None
    detail: Mapping[str, object] = field(default_factory=dict[str, object])

    @property
    def running(self) -> bool:
        return self.phase in RUNNING


@dataclass(frozen=True)
class OnHost:
    """A file on a host; a relative path is below the host's own directory."""

    path: str


class NoHostsError(Exception):
    """A stack's hosts cannot be reached; why, in one sentence."""


class Hosts(Protocol):
    """The hosts of one stack. Raises LookupError for an index that does not exist."""

    @property
    def stack(self) -> str: ...

    def states(self) -> Sequence[HostView]:
        """Every host, by index; empty where nothing is deployed."""
        ...

    def metrics(self, index: int) -> Iterator[dict[str, float]]:
        """What the host's training logged of the current run, one mapping per logged step, oldest first."""
        ...

    def logs(self, index: int, follow: bool) -> Iterator[str]:
        """Lines of the host's log; with `follow` until it ends."""
        ...

    def exec(self, index: int, command: Sequence[str]) -> Generator[str, None, int]:
        """Run a command on the host: yields the lines it prints, returns its exit code. Closing it ends the command."""
        ...

    def copy(self, index: int, source: Path | OnHost, destination: Path | OnHost) -> None:
        """Bring a file from the host or to it."""
        ...

    def stop(self, progress: Callable[[str], None]) -> None:
        """Save a checkpoint and end training on all hosts."""
        ...

    def start(self) -> None:
        """Start hosts that are not running; training resumes at its last checkpoint."""
        ...

    def run_spec(self) -> RunSpec | None:
        """What the hosts run; None where nothing is deployed."""
        ...

    def run_location(self) -> str | None:
        """Where the current run keeps checkpoints, metrics and its record: a path or a URL."""
        ...

    def kept_runs(self) -> Sequence[str]:
        """Where each run of the stack lies, by name, also of runs before and after `pulumi destroy`."""
        ...

    def delete_kept_runs(self) -> None:
        """Delete them all."""
        ...


def below(location: str, *names: str) -> str:
    """A place below a location, which is a path or a URL: a Path would make `gs:/bucket` of `gs://bucket`."""
    return "/".join([location.rstrip("/"), *names])


def open_hosts(stack: str) -> Hosts:
    """The hosts of a stack. Raises NoHostsError where they cannot be reached."""
    hosts = _part(_target(stack))
    if hasattr(hosts, "open_hosts"):
        return cast(ModuleType, hosts).open_hosts(stack)
    from infra.stack_file import settings  # here: a stack's rules cost 0.2 s, and only the refusal needs them

    try:
        target = settings.from_file(stack).target
    except settings.SettingsError as error:
        raise NoHostsError(str(error)) from None
    raise NoHostsError(
        f"stack '{stack}' is of target {target}, whose hosts this command does not reach yet; what is there says: "
        f"pulumi preview --stack {stack} --diff (docs/runbook.md)"
    )


def store(target: Target, settings: object) -> str:
    """Where the hosts of a stack that trains read wheels and bundles: a directory or a bucket."""
    return cast(ModuleType, _part(target)).store(settings)


def _part(target: Target | None) -> ModuleType | None:
    return registry.part(target, "hosts") if target else None


def _target(stack: str) -> Target | None:
    """None where the stack file cannot say it; settings.from_file tells why."""
    try:
        return Target(stack_yaml.written(stack_file(stack).read_text(encoding="utf-8"))["target"])
    except (OSError, KeyError, ValueError):
        return None
