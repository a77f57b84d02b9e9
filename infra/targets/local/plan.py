"""What target `local` alone decides of a stack: its run's data and directories, its port; and what this machine says.

Looks (are there sources, is the port free, whose is the run's name) and changes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import socket
from pathlib import Path

from infra.paths import ROOT, WORK, StackPaths, of_stack
from infra.runs import records, run_plan
from infra.stack_file.settings import SettingsError
from infra.targets.local import host_directory
from infra.targets.local.settings import LocalSettings
from training.data.identity import (
    TRAIN_TOKENIZER,
    DataError,
    PrepareOptions,
    content_id,
    corpus_files,
)
from training.data.prepared import is_prepared, read_prepared
from training.run_spec import DataSpec, RunSpec, differences, epochs_sentence, identity, parse, too_few_tokens
from training.sharding import resolve_mesh

_PORTS = range(20000, 30000)  # below the range from which the kernel gives ports to clients


def run_spec(settings: LocalSettings, work: Path = WORK) -> RunSpec:
    """What the hosts run; data is named by its content. Raises SettingsError for data that is not there."""
    return run_plan.run_spec(settings, of_stack(settings.stack, work).runs, _data(settings, work))


def notices(settings: LocalSettings, spec: RunSpec, work: Path = WORK) -> tuple[str, ...]:
    """What a reviewer should know. Raises SettingsError for what cannot work on this machine."""
    paths = of_stack(settings.stack, work)
    refusal = records.conflict(records.read(spec), spec)
    if refusal:
        raise SettingsError(refusal)
    _check_port(port(settings, paths), paths)
    return (_describe(spec), *_epochs(spec), *_what_changes(paths, spec))


def port(settings: LocalSettings, paths: StackPaths) -> int:
    """Of the run's coordinator: the same for the same stack of the same clone, so that a second preview is empty."""
    digest = hashlib.sha256(str(paths.root).encode()).digest()
    return settings.coordinator_port or _PORTS[int.from_bytes(digest[:4], "big") % len(_PORTS)]


def prepare_arguments(settings: LocalSettings) -> list[str]:
    """Of training.data.prepare: the sources, and its options as flags, spelled as the fields are."""
    options = _options(settings)
    flags = [
        f"--{field.name.replace('_', '-')}={getattr(options, field.name)}"
        for field in dataclasses.fields(options)
        if not isinstance(field.default, bool)
    ]
    return [*settings.sources, *flags]


def _describe(spec: RunSpec) -> str:
    """One line: hardware, mesh, run."""
    mesh = resolve_mesh(spec.maxtext, spec.hosts_per_slice * spec.devices_per_host, spec.slices)
    size = f"{spec.slices} x {spec.hosts_per_slice} hosts x {spec.devices_per_host} {spec.platform} devices"
    length = f"{spec.steps} steps of {spec.tokens_per_step:,} tokens"
    return f"{spec.stack}: {size}, mesh {mesh}; run {spec.run_name}, {length}; $0"


def _options(settings: LocalSettings) -> PrepareOptions:
    given = settings.data_options
    return PrepareOptions(
        text_key=given.text_key,
        vocab_size=given.vocab_size,
        tokenizer=given.tokenizer or TRAIN_TOKENIZER,
        heldout_fraction=given.heldout_fraction,
        record_bytes=given.record_bytes,
        seed=given.seed,
    )


def _data(settings: LocalSettings, work: Path) -> DataSpec | None:
    if not settings.sources:
        return None
    try:
        files = corpus_files(settings.sources, ROOT)
        content = content_id(files, _options(settings), work / "cache" / "data-stat.json")
    except DataError as error:
        raise SettingsError(f"data: {error}") from None
    if not any(file.path.stat().st_size for file in files):
        raise SettingsError(f"data: every file of '{settings.data}' is empty")
    return DataSpec(str(work / "data" / content), content, settings.data_options.max_epochs)


def _epochs(spec: RunSpec) -> tuple[str, ...]:
    """Refuse other data than the run's, and a run that reads it too often, as far as that is known before `up`."""
    if spec.data is None:
        return ()
    directory = Path(spec.data.directory)
    if not is_prepared(directory):
        return ("data is not prepared yet; `up` prepares it and counts its tokens",)
    try:
        tokens = read_prepared(directory, spec.data.content).train.tokens or 0
    except DataError as error:
        raise SettingsError(f"data: {error}") from None
    needed = spec.steps * spec.tokens_per_step
    refusal = too_few_tokens(needed, tokens, spec.data.max_epochs)
    if refusal:
        raise SettingsError(refusal)
    return (epochs_sentence(needed, tokens),)


def _what_changes(paths: StackPaths, spec: RunSpec) -> tuple[str, ...]:
    """Says when `up` will start another run than the one the hosts have, or stretch this one's schedule."""
    try:
        old = parse((paths.host(0) / host_directory.RUN_SPEC).read_text())
    except FileNotFoundError:
        return ()
    if old.run_name != spec.run_name:
        changed = "; ".join(differences(identity(old), identity(spec))) or "run_name"
        return (f"new run {spec.run_name} ({changed}); {old.run_name} keeps its checkpoints in {paths.runs}",)
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
                f"coordinator port {port} is in use by another program; set `slipway:coordinator_port:` to a free one"
            ) from None
