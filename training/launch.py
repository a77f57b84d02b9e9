"""`python -m training.launch run_spec.yaml --host-dir DIR`: check, then train, on one host.

Owns the order: everything that can be known to be wrong is found before JAX starts, in one sentence and exit code 2.
Then a supervised process trains (training/supervisor.py, training/trainer.py). Exit codes: training/exit_codes.py.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import yaml

from training import bucket_clients, early_ends, gpu_hosts, nccl_log, notice, peers, run_spec, supervisor
from training.bucket_reader import BucketReader, BucketReadError
from training.checkpoints import checkpoint_directory, completed_steps, is_remote, run_in_bucket
from training.data.demand import demand_of, refusal
from training.data.host_copy import on_this_host
from training.data.identity import DataError
from training.data.mounted import wait_for_mount
from training.data.prepared import read_prepared
from training.endings import nothing_left
from training.exit_codes import ExitCode
from training.flag_check import check_flags
from training.gpu_environment import NETWORK, REFUSED, SOCKETS
from training.host_status import HostStatus, Phase, read_status, write_status
from training.hosts import Host, HostError, NotYetError, environment, metadata_reader, who_am_i
from training.loss_judge import BadStep, bad_step_of, bounds
from training.maxtext_config import ConfigError, HostFiles, maxtext_arguments
from training.plan import Plan
from training.restarts import Restarts
from training.run_spec import RunSpec, RunSpecError
from training.sharding import MeshError
from training.step_record import step_record
from training.xla_flags import JAX_PLATFORMS, FlagError, for_host


class InputError(ValueError):
    """What this host was given cannot work; the message is one sentence."""


class StoppedError(Exception):
    """SIGTERM or SIGINT before the training process was started."""


_NOTICE_POLL_S = 5.0
_BAD_INPUT = (InputError, RunSpecError, HostError, ConfigError, FlagError, MeshError, DataError)


@dataclasses.dataclass(frozen=True)
class Options:
    """Command line. `connect_timeout_s` covers hosts that boot later; after `heartbeat_s` of silence a host is lost.

    A step that takes less than `standstill_s` is no standstill, however short the others were. `start_again`: after an
    end that another start may mend.
    """

    run_spec: Path
    host_directory: Path
    cache: Path
    heartbeat_s: int
    connect_timeout_s: int
    standstill_s: int
    start_again: bool


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    options.host_directory.mkdir(parents=True, exist_ok=True)
    restarts = Restarts(random.random)
    while True:
        _hear_signals()
        status, end = _start(options)
        wait_s = restarts.wait_s(end.word) if end and options.start_again else None
        if end and wait_s is not None and not end.told_to_stop():
            if stopped := _wait(options.host_directory, end, wait_s):
                return _say(stopped)
        elif end and options.start_again and restarts.is_repeated(end.word):
            reason = f"{status.reason}; the same as at the start before, at the same step"
            return _say(_ended(options.host_directory, status, ExitCode.REPEATED, reason))
        else:
            return _say(status)


def _start(options: Options) -> tuple[HostStatus, supervisor.End | None]:
    """One start to its end: the last word, and where it came to a training how that ended."""
    directory = options.host_directory
    status = _begin(directory)
    leave: Callable[[HostStatus], None] | None = None  # in the run's bucket, once it is known whose word it is
    try:
        spec = _read_spec(options.run_spec)
        status = dataclasses.replace(status, steps=spec.steps)
        write_status(directory, status)
        done = _steps_done(spec)
        if done >= spec.steps:
            reason = nothing_left(done, spec.steps).reason
            return _ended(directory, dataclasses.replace(status, step=done), ExitCode.FINISHED, reason), None
        environ = environment()
        _wait_for_the_platform(directory, status, environ)
        if spec.platform == "gpu":
            gpu_hosts.check(environ, spec.hosts, gpu_hosts.locked_cuda(), partial(_show, directory, status))
        host = who_am_i(environ, metadata_reader(environ))
        patient = {**environ, **bucket_clients.environment(options.standstill_s)}
        leave = partial(early_ends.leave, directory, spec, host, patient)
        spec = _with_data_here(spec, environ, directory, status)
        plan, child_environ = prepare(spec, host, environ, options, status.started)
        Path(plan.metrics_source).unlink(missing_ok=True)
        (directory / nccl_log.FILE_NAME).unlink(missing_ok=True)
        path = plan.save(directory)
        write_status(directory, dataclasses.replace(status, step=done, resumed_from=done or None))
        early_ends.forget(directory)
    except (*_BAD_INPUT, BucketReadError, OSError, StoppedError) as error:
        ended = _ended(directory, status, *_before_training(error))
        if leave:
            leave(ended)
        return ended, None
    end = supervisor.run(plan, path, child_environ)
    if (bad := end.word.ending.bad) and plan.data:
        _name_records(path, bad, child_environ)
    return end.status, end


def _before_training(error: Exception) -> tuple[ExitCode, str]:
    """How a start ends that comes to no training."""
    match error:
        case NotYetError() | BucketReadError():
            return ExitCode.FAILED, str(error)
        case StoppedError():
            return ExitCode.INTERRUPTED, "told to stop before training began"
        case OSError():
            where = f": {error.filename}" if error.filename else ""  # of a write that had no room it is not known
            return ExitCode.FAILED, f"{os.strerror(error.errno or 0)}{where}"
        case _:
            return ExitCode.BAD_INPUT, str(error)


def _name_records(plan_path: Path, bad: BadStep, environ: Mapping[str, str]) -> None:
    """Write down what the bad step has read, until told to stop; after the last word, for it may take minutes.

    On CPU alone: the accelerators are the next start's.
    """
    _hear_signals()
    said = json.dumps(dataclasses.asdict(bad))
    command = [sys.executable, "-m", "training.batch_records", str(plan_path), said]
    with contextlib.suppress(StoppedError):
        subprocess.run(command, env={**environ, "JAX_PLATFORMS": "cpu"}, check=False)


def _wait_for_the_platform(directory: Path, status: HostStatus, environ: Mapping[str, str]) -> None:
    """A host that is about to end, or has its maintenance, does not begin: all would stop for it again at once."""
    said = ""
    while now := notice.standing(environ):
        if now != said:
            said = now
            write_status(directory, dataclasses.replace(status, reason=f"waits: {said}"))
            print(f"slipway: waits: {said}", flush=True)
        time.sleep(_NOTICE_POLL_S)


def _with_data_here(spec: RunSpec, environ: Mapping[str, str], directory: Path, status: HostStatus) -> RunSpec:
    """The run spec with its text where this host reads it; what lies in a bucket and is not mounted is copied first."""

    show = partial(_show, directory, status)
    if spec.data and spec.data.mounted_from:
        wait_for_mount(spec.data, show)
        return spec
    return on_this_host(spec, directory / "data", BucketReader(environ), show)


def _show(directory: Path, status: HostStatus, progress: str) -> None:
    write_status(directory, dataclasses.replace(status, updated=time.time(), reason=progress))


def _wait(directory: Path, end: supervisor.End, wait_s: float) -> HostStatus | None:
    """Until the next start; the last word where this host is told to stop meanwhile."""
    _hear_signals()
    reason = f"{end.status.reason}; starts again in {wait_s:.0f} s"
    waiting = dataclasses.replace(end.status, phase=Phase.STARTING, exit_code=None, cause=None, reason=reason)
    with contextlib.suppress(StoppedError):
        if not end.told_to_stop():
            write_status(directory, waiting)
            print(f"slipway: {reason}", flush=True)
            time.sleep(wait_s)
            return None
    return _ended(directory, waiting, ExitCode.INTERRUPTED, f"told to stop after: {end.status.reason}")


def _hear_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)


def prepare(
    spec: RunSpec, host: Host, environ: Mapping[str, str], options: Options, started: float
) -> tuple[Plan, dict[str, str]]:
    """Everything decided for this host: the plan of its training process and that process's environment."""
    if spec.platform not in JAX_PLATFORMS:
        raise InputError(f"platform of the run spec is {spec.platform!r}; allowed: {', '.join(JAX_PLATFORMS)}")
    if host.count != spec.hosts:
        raise InputError(
            f"this host counts {host.count} hosts ({host.said_by}), the run spec {spec.hosts} "
            f"({spec.slices} slices of {spec.hosts_per_slice}); start {spec.hosts} hosts, or run `pulumi up` again"
        )
    if host.devices not in (None, spec.devices_per_host):
        raise InputError(f"GPUS_PER_NODE is {host.devices}, the run spec has {spec.devices_per_host} devices per host")
    heldout_tokens = _check_data(spec)
    flags = for_host(spec.platform, spec.devices_per_host, environ, importlib.metadata.version("jaxlib"))
    for variable in flags:
        for line in variable.overridden:
            print(f"slipway: {line}", flush=True)
        check_flags(variable, environ, options.cache)
    if host.index == 0:
        _check_port(int(host.coordinator.rpartition(":")[2]), "coordinator port")
        if host.count > 1:
            _check_port(peers.port(host.coordinator), "the port after the coordinator's,")
    files = HostFiles(str(options.host_directory / "maxtext-metrics.jsonl"), str(options.cache / "jax"))
    remote = is_remote(spec.output_directory)  # then no file can be written on; training/record_keeper.py sends it
    records = str(options.host_directory / "runs") if remote else spec.output_directory
    plan = Plan(
        index=host.index,
        count=host.count,
        coordinator=host.coordinator,
        devices_per_host=spec.devices_per_host,
        devices=spec.devices,
        steps=spec.steps,
        tokens_per_step=spec.tokens_per_step,
        checkpoints=checkpoint_directory(spec.output_directory, spec.run_name),
        metrics_source=files.metrics,
        metrics_record=str(step_record(records, spec.run_name, host.index)),
        heartbeat_s=options.heartbeat_s,
        connect_timeout_s=options.connect_timeout_s,
        standstill_s=options.standstill_s,
        interruption_s=spec.interruption_s,
        partition=host.index // spec.hosts_per_slice if spec.platform == "gpu" else None,
        started=started,
        data=spec.data.directory if spec.data else "",
        data_mounted_from=spec.data.mounted_from if spec.data else "",
        maxtext=maxtext_arguments(spec, files, heldout_tokens),
        loss_spike=spec.loss_spike,
        run=run_in_bucket(spec.output_directory, spec.run_name),
        bundle=environ.get("SLIPWAY_BUNDLE", ""),
        network=environ.get(NETWORK, ""),
        sockets_refused=host.count > 1 and environ.get(SOCKETS) == REFUSED,
    )
    child = bucket_clients.environment(options.standstill_s) if remote else {}
    # MaxText lets M_<FIELD> variables change a run behind its run spec's back, so they do not reach it.
    child |= {name: value for name, value in environ.items() if not name.startswith("M_")}
    child |= {variable.variable: variable.text for variable in flags if variable.flags}
    if "NCCL_DEBUG" in environ:  # what it says is read, so it is no part of the log
        child["NCCL_DEBUG_FILE"] = str(options.host_directory / nccl_log.FILE_NAME)
    child["JAX_PLATFORMS"] = JAX_PLATFORMS[spec.platform]
    if any("_proxy" in name.lower() for name in environ):  # else gRPC asks the proxy for the coordinator
        child |= {"no_grpc_proxy": host.coordinator.rpartition(":")[0], "JAX_CHECK_PROXY_ENVS": "false"}
    return plan, child


def _read_spec(path: Path) -> RunSpec:
    try:
        return run_spec.parse(path.read_text())
    except OSError as error:
        raise InputError(f"run spec {path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise InputError(f"run spec {path} is not YAML: {' '.join(str(error).split())}") from None


def _check_data(spec: RunSpec) -> int | None:
    """Held-out tokens of the run's data. Raises InputError where they do not suffice or the tokenizer does not fit."""
    if spec.data is None:
        return None
    manifest = read_prepared(Path(spec.data.directory), spec.data.content)
    demand = demand_of(spec)
    if sentence := refusal(manifest, demand):
        raise InputError(sentence)
    print(f"slipway: {run_spec.epochs_sentence(demand.tokens, manifest.train.tokens or 0)}", flush=True)
    return manifest.heldout.tokens


def _check_port(port: int, which: str) -> None:
    """JAX crashes (SIGSEGV) where its coordinator cannot bind, so try first."""
    try:
        socket.create_server(("", port)).close()
    except OSError as error:
        cause = os.strerror(error.errno or 0)
        raise InputError(
            f"{which} {port} cannot be opened on this host: {cause}; end what uses it, or set another"
        ) from None


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise StoppedError


def _steps_done(spec: RunSpec) -> int:
    """Steps in the newest checkpoint that is good, for a local directory; of a remote one the training finds out."""
    directory = checkpoint_directory(spec.output_directory, spec.run_name)
    if is_remote(directory):
        return 0
    record = step_record(spec.output_directory, spec.run_name, 0)
    bad = bad_step_of(record, bounds(spec.maxtext, spec.loss_spike))
    return completed_steps(Path(directory), spoiled=bad.spoiled if bad else None)


def _begin(directory: Path) -> HostStatus:
    """Status of this start; its beginning is bootstrap.sh's, where that made the environment just before."""
    now, before = time.time(), read_status(directory)
    started = before.started if before and before.phase is Phase.BOOTSTRAPPING else now
    status = HostStatus(Phase.STARTING, started, now)
    write_status(directory, status)
    return status


def _ended(directory: Path, status: HostStatus, code: ExitCode, reason: str) -> HostStatus:
    ended = status.ended(code, reason)
    write_status(directory, ended)
    return ended


_NEXT = {
    ExitCode.FINISHED: "raise `steps` to train on",
    ExitCode.FAILED: "see the log above; the same run spec resumes at the newest checkpoint",
    ExitCode.BAD_INPUT: "running again changes nothing until this is fixed",
    ExitCode.REPEATED: "running again changes nothing until this is fixed; see the log above",
    ExitCode.INTERRUPTED: "the same run spec resumes at the newest checkpoint",
}


def _say(status: HostStatus) -> int:
    code = ExitCode(status.exit_code if status.exit_code is not None else ExitCode.FAILED)
    print(
        f"slipway: {status.phase} at step {status.step} of {status.steps}: {status.reason}; next: {_NEXT[code]}",
        flush=True,
    )
    return int(code)


def _options(arguments: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="training.launch", description="Train on this host as the run spec says.")
    parser.add_argument("run_spec", type=Path)
    parser.add_argument("--host-dir", type=Path, required=True, help="this host's own directory")
    parser.add_argument("--cache-dir", type=Path, help="compiled programs; default: cache/ in the host's directory")
    parser.add_argument("--heartbeat-s", type=int, default=15, help="silence after which a host is lost")
    parser.add_argument("--connect-timeout-s", type=int, default=600, help="how long hosts wait for each other")
    parser.add_argument("--standstill-s", type=int, default=60, help="the least time after which a step stands still")
    parser.add_argument("--start-again", action="store_true", help="after an end that another start may mend")
    values = parser.parse_args(arguments)
    directory: Path = values.host_dir.absolute()
    cache: Path = values.cache_dir or directory / "cache"
    seconds = (values.heartbeat_s, values.connect_timeout_s, values.standstill_s)
    return Options(values.run_spec, directory, cache.absolute(), *seconds, values.start_again)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
