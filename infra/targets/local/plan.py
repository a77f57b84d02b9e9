"""What target `local` decides by itself: a stack's port, and whether `up` will start another run than its hosts have.

Looks (is the port free, what do hosts run) and changes nothing.
"""

from __future__ import annotations

import hashlib
import socket

from infra.paths import StackPaths, of_stack
from infra.stack_file.settings import SettingsError
from infra.targets.local import host_directory
from infra.targets.local.settings import LocalSettings
from training.run_spec import RunSpec, differences, identity, parse
from training.sharding import resolve_mesh

_PORTS = range(20000, 30000)  # below the range from which the kernel gives ports to clients


def notices(settings: LocalSettings, spec: RunSpec) -> tuple[str, ...]:
    """What a reviewer should know. Raises SettingsError for what cannot work on this machine."""
    paths = of_stack(settings.stack)
    coordinator = port(settings, paths)
    _check_port(coordinator, paths)
    if spec.hosts > 1:
        _check_port(coordinator + 1, paths)  # training/peers.py has it
    return (_describe(spec), *_what_changes(paths, spec))


def port(settings: LocalSettings, paths: StackPaths) -> int:
    """Of the run's coordinator: the same for the same stack of the same clone, so that a second preview is empty."""
    digest = hashlib.sha256(str(paths.root).encode()).digest()
    return settings.coordinator_port or _PORTS[int.from_bytes(digest[:4], "big") % len(_PORTS)]


def _describe(spec: RunSpec) -> str:
    """One line: hardware, mesh, run."""
    mesh = resolve_mesh(spec.maxtext, spec.hosts_per_slice * spec.devices_per_host, spec.slices)
    size = f"{spec.slices} x {spec.hosts_per_slice} hosts x {spec.devices_per_host} {spec.platform} devices"
    length = f"{spec.steps} steps of {spec.tokens_per_step:,} tokens"
    return f"{spec.stack}: {size}, mesh {mesh}; run {spec.run_name}, {length}; $0"


def _what_changes(paths: StackPaths, spec: RunSpec) -> tuple[str, ...]:
    """Says when `up` will start another run than the one the hosts have, or stretch this one's schedule."""
    try:
        old = parse((paths.host(0) / host_directory.RUN_SPEC).read_text())
    except FileNotFoundError:
        return ()
    if old.run_name != spec.run_name:
        changed = "; ".join(differences(identity(old), identity(spec))) or "run_name"
        return (f"new run {spec.run_name} ({changed}); {old.run_name} keeps its checkpoints in {old.output_directory}",)
    key = "learning_rate_schedule_steps"
    if old.steps != spec.steps:
        schedule = f"; its learning rate schedule goes from {old.maxtext[key]} to {spec.maxtext[key]} steps"
        return (f"run {spec.run_name} goes on, to step {spec.steps} instead of {old.steps}{schedule}",)
    return ()


def _check_port(port: int, paths: StackPaths) -> None:
    if any(host.record.process() for host in host_directory.states(paths.hosts)):
        return  # ours holds it
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise SettingsError(
                f"port {port} is in use by another program; set `slipway:coordinator_port:`; the next is taken too"
            ) from None
