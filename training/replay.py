"""`python -m training.replay run_spec.yaml --step N`: a run's steps up to N once more, beside what is recorded of them.

All hosts of the run on this machine, in a scratch directory that begins with a copy of the newest good checkpoint
before the step; nothing of the run is written. SLIPWAY_COORDINATOR names the first of two free ports. Owns what is done
again and the comparison. Refuses to own the training (training/launch.py) and where runs are
(infra/targets/local/hosts.py).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training import run_spec
from training.checkpoints import checkpoint_directory, is_remote, labels
from training.exit_codes import ExitCode
from training.loss_judge import bounds, first_bad
from training.run_spec import RunSpec
from training.step_record import read_record, step_record

_NEVER = 10**9  # steps between saves
_COMPARED = {"learning/loss": "loss", "learning/grad_norm": "gradient norm", "learning/param_norm": "parameter norm"}
_TAIL = 3000


class ReplayError(ValueError):
    """The step cannot be done again; the message says why."""


@dataclass(frozen=True)
class ReplayStart:
    """`first`: the step that a replay does first; `checkpoint`: that before it, None where it begins anew."""

    first: int
    checkpoint: Path | None


def start_of(spec: RunSpec, step: int) -> ReplayStart:
    """Raises ReplayError for a step that the run has not recorded."""
    if is_remote(spec.output_directory):
        raise ReplayError(f"the run is at {spec.output_directory}; a replay needs it in a directory of this machine")
    record = _record(spec, 0)
    done = max((int(line["step"]) for line in record), default=-1)
    if not 0 <= step <= done:
        raise ReplayError(f"step {step} is not recorded; the run {spec.run_name} has steps 0 to {done}")
    bad = first_bad(record, bounds(spec.maxtext, spec.loss_spike))
    limit = min(step, bad.spoiled) if bad else step
    directory = Path(checkpoint_directory(spec.output_directory, spec.run_name))
    good = [label for label in labels(directory) if label < limit]
    return ReplayStart(good[-1] + 1, directory / str(good[-1])) if good else ReplayStart(0, None)


def replayed(spec: RunSpec, scratch: Path, step: int) -> RunSpec:
    """The same run to the end of a step, elsewhere: its schedule stays, and it saves and evaluates nothing between."""
    same = {"learning_rate_schedule_steps": spec.maxtext.get("learning_rate_schedule_steps", spec.steps)}
    maxtext = {**spec.maxtext, **same, "checkpoint_period": _NEVER, "eval_interval": -1}
    return dataclasses.replace(spec, steps=step + 1, output_directory=str(scratch), maxtext=maxtext)


def comparison(recorded: Sequence[Mapping[str, Any]], again: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each step that was done again; of what is recorded of a step several times, the last counts."""
    before, after = ({int(line["step"]): line for line in lines} for lines in (recorded, again))
    return [_compared(step, before.get(step, {}), line) for step, line in sorted(after.items())]


def _compared(step: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    keys = [key for key in _COMPARED if key in after]
    if not before:
        return f"step {step}: {', '.join(f'{_COMPARED[key]} {after[key]!r}' for key in keys)}; not recorded"
    differing = [key for key in keys if not _same(before.get(key, math.nan), after[key])]
    values = [
        f"{_COMPARED[key]} {after[key]!r}" + (f" (recorded: {before.get(key)!r})" if key in differing else "")
        for key in keys
    ]
    return f"step {step}: {', '.join(values)}; {'differs' if differing else 'bit-equal'}"


def _same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _record(spec: RunSpec, index: int) -> list[dict[str, Any]]:
    record = read_record(step_record(spec.output_directory, spec.run_name, index))
    return [line for line in record if "learning/loss" in line]


def replay(spec: RunSpec, step: int, cache: Path, environ: Mapping[str, str]) -> int:
    """Do it, and print what came of it. Raises ReplayError."""
    start = start_of(spec, step)
    after = f"checkpoint {start.first - 1}" if start.checkpoint else "the first step, for want of a checkpoint"
    print(f"steps {start.first} to {step} of run {spec.run_name} again, from {after}", flush=True)
    with tempfile.TemporaryDirectory(prefix="slipway-replay-") as directory:
        scratch = Path(directory)
        again = replayed(spec, scratch, step)
        if start.checkpoint:
            checkpoints = Path(checkpoint_directory(str(scratch), spec.run_name))
            shutil.copytree(start.checkpoint, checkpoints / start.checkpoint.name)
        log = _train(again, scratch, cache, environ)
        done = _record(again, 0)
        for line in comparison(_record(spec, 0), done):
            print(line, flush=True)
        if not done:
            print(log[-_TAIL:], file=sys.stderr)
            raise ReplayError("no step was done; the end of the log is above")
        last = int(done[-1]["step"])
        if last < step:
            print(f"the replay went no further: {_last_line(log)}", flush=True)
        _print_records(again, scratch, last, start.first)
    return 0


def _train(spec: RunSpec, scratch: Path, cache: Path, environ: Mapping[str, str]) -> str:
    """All hosts to their end; host 0's log."""
    (scratch / "run_spec.yaml").write_text(spec.to_yaml())
    with contextlib.ExitStack() as stack:
        hosts = [stack.enter_context(_host(spec, index, scratch, cache, environ)) for index in range(spec.hosts)]
        stack.callback(lambda: [host.terminate() for host in hosts])  # before each is waited for
        for host in hosts:
            host.wait()
    return (_directory(scratch, 0) / "log").read_text(errors="replace")


def _host(spec: RunSpec, index: int, scratch: Path, cache: Path, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    directory = _directory(scratch, index)
    directory.mkdir()
    own = {"SLIPWAY_HOST_INDEX": str(index), "SLIPWAY_HOST_COUNT": str(spec.hosts)}
    places = ["--host-dir", str(directory), "--cache-dir", str(cache)]
    command = [sys.executable, "-m", "training.launch", str(scratch / "run_spec.yaml"), *places]
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(command, env={**environ, **own}, stdout=log, stderr=log)


def _directory(scratch: Path, index: int) -> Path:
    return scratch / f"host-{index}"


def _last_line(log: str) -> str:
    return log.rstrip().rpartition("\n")[2]


def _print_records(spec: RunSpec, scratch: Path, step: int, first: int) -> None:
    from training import batch_records  # here: it imports what MaxText does, and a refusal should not wait for that
    from training.plan import load

    for index in range(spec.hosts):
        plan = load(_directory(scratch, index) / "plan.json")
        try:
            records = batch_records.records_of(plan, step, first)
        except batch_records.NotTraceableError as error:
            print(f"what step {step} reads is not known: {error}")
            return
        print(f"host {index} reads for step {step}:")
        for record in records:
            print(f"  {record.file}  record {record.record}  {record.tokens} tokens")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="training.replay", description="A run's steps up to N once more.")
    parser.add_argument("run_spec", type=Path)
    parser.add_argument("--step", type=int, required=True, help="from 0, as in the run's metrics")
    parser.add_argument("--cache-dir", type=Path, required=True, help="compiled programs")
    options = parser.parse_args(arguments)
    try:
        spec = run_spec.parse(options.run_spec.read_text())
        return replay(spec, options.step, options.cache_dir.absolute(), os.environ)
    except ReplayError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(ExitCode.BAD_INPUT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
