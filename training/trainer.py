"""The process that trains: jax.distributed, proof that all hosts take part, MaxText, and how it ended.

Started by training/launch.py with a plan; MaxText runs in it as installed. Owns the truth of how a training ended,
because MaxText exits 0 after a SIGTERM or without data, and moves checkpoints away that must not be resumed. Refuses to
own what ends the process itself (abort, kill): training/supervisor.py sees that.
"""

from __future__ import annotations

import ctypes
import dataclasses
import faulthandler
import json
import logging
import math
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import absl.logging
import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from training import (
    checkpoints,
    compiled_programs,
    last_step,
    maxtext_imports,
    notice,
    paces,
    sync_point,
    text_readers,
)
from training.bucket_clients import limit_retries
from training.checkpoints import completed_steps, is_remote, set_aside
from training.data.host_copy import forget_damaged
from training.data.prepared import damaged
from training.endings import (
    Cause,
    Ending,
    how_it_ended,
    is_lost_host,
    nothing_left,
    of_error,
    of_mount,
    of_numbers,
    sentence,
    unreadable_data,
)
from training.exit_codes import ExitCode
from training.host_status import HostStatus, Phase, write_status
from training.loss_judge import BadStep, bad_step_of
from training.maxtext_config import command_line
from training.metrics import Listeners, Observer
from training.plan import Plan, load
from training.reader_shares import refusal
from training.record_keeper import fetch
from training.save_period import SavePeriod, derived
from training.standstill import Measures, Pace, Standstill

_PR_SET_PDEATHSIG = 1
_HASHING_S = 20.0  # the others wait for this host meanwhile; a file of a few GB takes a second each


class BadInputError(ValueError):
    """The plan cannot work on these hosts; running it again changes nothing."""


def main(plan_path: Path, supervisor: int) -> NoReturn:
    """Train as the plan says; `supervisor` is the process whose end ends this one, and whose word on stdin does."""
    _die_with(supervisor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the group; the supervisor decides
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    plan = load(plan_path)
    directory = plan_path.parent
    status = HostStatus(Phase.STARTING, plan.started, time.time(), steps=plan.steps)
    end = _End()

    def failed(error: BaseException) -> None:
        traceback.print_exception(error)  # here, for the process may end before whoever logged it has written it
        end.ask(of_error(error, None, plan.count))

    def stands_still(standstill: Standstill) -> None:
        end.ask(Ending(ExitCode.INTERRUPTED, Cause.STANDSTILL, str(standstill)))

    def went_bad(bad: BadStep) -> None:
        end.ask(_of_numbers(plan, bad))

    shape = paces.shape(plan)
    earlier = paces.read(directory, shape)

    def keep(measures: Measures) -> None:
        paces.write(directory, shape, measures)

    source, record = Path(plan.metrics_source), Path(plan.metrics_record)
    pace = Pace(plan.standstill_s, earlier)
    notice_s = notice.PREEMPTION_S if notice.can_be_given(os.environ) else math.inf
    listeners = Listeners(failed, stands_still, went_bad, keep)
    per_step = plan.tokens_per_step
    observer = Observer(directory, source, record, status, per_step, listeners, pace, plan.held_to, notice_s)
    threading.excepthook = _telling(failed)
    end.watch(plan, directory, observer)
    ending = _run(plan, directory, observer)
    end.is_mine()
    # A bucket is not asked again: it may be what has ended the training.
    saved = observer.progress.status.saved or 0 if is_remote(plan.checkpoints) else _completed(plan)
    last = last_word(plan, ending, observer, saved)
    write_status(directory, last)
    _leave(ExitCode(last.exit_code or 0))


class _End:
    """The end of this process by what a thread, or the supervisor, knows: the main thread may stand anywhere."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[Ending] = queue.SimpleQueue()
        self._taken = threading.Lock()

    def watch(self, plan: Plan, directory: Path, observer: Observer) -> None:
        threading.Thread(target=self._obey, name="slipway-orders", daemon=True).start()
        threading.Thread(target=self._wait, args=(plan, directory, observer), name="slipway-end", daemon=True).start()

    def ask(self, ending: Ending) -> None:
        """From any thread. The first counts; returns at once."""
        self._asked.put(ending)

    def is_mine(self) -> None:
        """The main thread's, which has come to an end of its own. Does not return where another has the last word."""
        self._taken.acquire()

    def _obey(self) -> None:
        # Not sys.stdin, whose lock this thread would hold at the end of the interpreter, which aborts then.
        with open(0, "rb", buffering=0, closefd=False) as orders:
            for line in orders:
                self.ask(Ending.of(json.loads(line)))

    def _wait(self, plan: Plan, directory: Path, observer: Observer) -> None:
        ending = self._asked.get()
        self._taken.acquire()
        code = ending.code
        try:
            if ending.cause is Cause.STANDSTILL:
                sys.stdout.flush()
                faulthandler.dump_traceback(sys.stderr, all_threads=True)
            observer.stop()
            last = last_word(plan, ending, observer, 0)  # who asks for checkpoints may wait for a bucket
            code = ExitCode(last.exit_code or 0)
            write_status(directory, last)
        finally:
            _break_off(code)


def _telling(failed: Callable[[BaseException], None]) -> Callable[[threading.ExceptHookArgs], None]:
    """For an exception that nobody catches in a thread. SystemExit is how a thread may end itself."""

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value and not isinstance(arguments.exc_value, SystemExit):
            failed(arguments.exc_value)

    return hook


def _run(plan: Plan, directory: Path, observer: Observer) -> Ending:
    try:
        compiled_programs.kept_by_every_host()
        _meet(plan)
        if plan.run:
            fetch(plan, epath.Path(plan.run))
        if plan.index == 0:
            set_spoiled_aside(plan)
        _prove_that_all_take_part(plan)  # the others wait in it until host 0 has moved what it had to
        plan = _with_save_period(plan, observer.progress.pace.measures())
        resumed = _completed(plan)
        if resumed:
            observer.progress.pace.resumes()
        observer.progress.status = dataclasses.replace(
            observer.progress.status,
            phase=Phase.COMPILING,
            updated=time.time(),
            step=resumed,
            resumed_from=resumed or None,
            saved=resumed,
        )
        write_status(directory, observer.progress.status)
        if resumed >= plan.steps:
            return nothing_left(resumed, plan.steps)
        readers = _readers(plan, resumed)
        observer.start()
        try:
            _train(plan, observer, readers)
        finally:
            observer.stop()
        if ending := _of_data(plan, observer.progress.stop_reason or ""):
            return ending
        return how_it_ended(plan.steps, _completed(plan), observer.progress.stop_reason)
    except BadInputError as error:
        return Ending(ExitCode.BAD_INPUT, Cause.INPUT, str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001  the process's last word: every way to fail gets a reason
        traceback.print_exc()
        sys.stderr.flush()
        if plan.count > 1 and is_lost_host(error):
            # The supervisor hears which and why, and ends this process, or JAX aborts it with the host's name.
            time.sleep(plan.heartbeat_s + 10)
        if ending := _of_data(plan, str(error)):
            return ending
        return of_error(error, observer.progress.stop_reason, plan.count)


def _meet(plan: Plan) -> None:
    """Start jax.distributed once all hosts are there, also for one: without it a SIGTERM saves nothing."""
    host, _, port = plan.coordinator.rpartition(":")
    bind = f"{host}:{port}" if host in ("127.0.0.1", "localhost") else None
    jax.distributed.initialize(
        plan.coordinator,
        plan.count,
        plan.index,
        cluster_detection_method="deactivate",
        coordinator_bind_address=bind,
        initialization_timeout=plan.connect_timeout_s,
        heartbeat_timeout_seconds=plan.heartbeat_s,
        # Else every host of GPUs is a slice to JAX, so MaxText's mesh would not be the one that the stack says.
        partition_index=plan.partition,
    )
    found = (jax.process_count(), jax.local_device_count(), jax.device_count())
    expected = (plan.count, plan.devices_per_host, plan.devices)
    if found != expected:
        words = "{} host(s), {} devices on this one, {} in all"
        raise BadInputError(
            f"JAX sees {words.format(*found)}; the run spec says {words.format(*expected)}; "
            f"take the accelerator that matches the machine, or free its devices"
        )


def set_spoiled_aside(plan: Plan) -> None:
    """By host 0 before anything is restored. All hosts have begun anew by then, so none is saving."""
    bad = bad_step_of(Path(plan.metrics_record), plan.held_to)
    directory: Any = epath.Path(plan.checkpoints)
    if bad and (moved := set_aside(directory, bad.spoiled, str(bad), is_remote(plan.checkpoints))):
        aside = f"set aside checkpoint {', '.join(map(str, moved))} ({directory.parent / 'set-aside'})"
        print(f"slipway: {bad}: {aside}", flush=True)


def _prove_that_all_take_part(plan: Plan) -> None:
    total, expected_total = _all_reduce(), plan.devices_per_host * plan.count * (plan.count + 1) // 2
    if total != expected_total:
        raise BadInputError(
            f"the sum over all devices is {total}, expected {expected_total} from {plan.count} processes with "
            f"{plan.devices_per_host} devices each; a process does not take part, or two have the same index"
        )
    print(f"slipway: {plan.count} hosts, {plan.devices} devices, all take part (sum {total})", flush=True)


def _all_reduce() -> int:
    """Sum of (process index + 1) over every device: a process that trains alone, or a missing device, changes it."""
    mesh = Mesh(np.array(jax.devices()), ("all",))
    sharded = NamedSharding(mesh, PartitionSpec("all"))
    own = [jax.device_put(np.full((1,), jax.process_index() + 1, np.int32), device) for device in mesh.local_devices]
    values = jax.make_array_from_single_device_arrays((mesh.size,), sharded, own)
    return int(jax.jit(jnp.sum, out_shardings=NamedSharding(mesh, PartitionSpec()))(values))


def _with_save_period(plan: Plan, earlier: Measures) -> Plan:
    """The plan with a checkpoint_period: the stack's, or host 0's on every host, each of which asks for it here."""
    if "checkpoint_period" in plan.maxtext:
        return plan
    period = derived(earlier, plan.interruption_s, plan.steps)
    steps = int(multihost_utils.broadcast_one_to_all(np.int32(period.steps)))
    if plan.index > 0:
        period = SavePeriod(steps, "as host 0 has measured")
    print(f"slipway: {period}", flush=True)
    return dataclasses.replace(plan, maxtext=plan.maxtext | {"checkpoint_period": period.steps})


def _readers(plan: Plan, resumed: int) -> int:
    """How many read the run's text: as many as there were hosts when it began."""
    directory: Any = epath.Path(plan.checkpoints)
    readers = checkpoints.readers(directory, resumed - 1, plan.count)
    if readers != plan.count and (refused := refusal(readers, plan.count, plan.rows_per_step)):
        raise BadInputError(refused)
    return readers


def _train(plan: Plan, observer: Observer, readers: int) -> None:
    absl.logging.set_verbosity(absl.logging.INFO)
    logging.getLogger("absl").addHandler(observer)
    with maxtext_imports.quick():
        from maxtext.trainers.pre_train import train
    if readers != plan.count:
        print(f"slipway: the text is read as by the {readers} hosts with which the run began", flush=True)
        text_readers.keep(readers)
    if is_remote(plan.checkpoints):
        limit_retries(plan.standstill_s)
    last_step.record(plan.steps)
    sync_point.ask_in_order()
    base = Path(sys.modules["maxtext"].__path__[0]) / "configs" / "base.yml"
    try:
        config, recorder = train.initialize(["", str(base), *command_line(plan.maxtext)])
    except (ValueError, TypeError, SystemExit) as error:
        raise BadInputError(f"MaxText refuses the run's settings: {sentence(error)}") from error
    train.run(config, recorder)


def _of_data(plan: Plan, text: str) -> Ending | None:
    """Where these are words of an error of reading the run's text."""
    damage = unreadable_data(text)
    return _unreadable(plan, damage) if damage else of_mount(text, plan)


def _unreadable(plan: Plan, damage: str) -> Ending:
    names = damaged(Path(plan.data), _HASHING_S) if plan.data else []
    mended = forget_damaged(Path(plan.data), names) if names else ""
    todo = f"the next start copies it from {mended} again" if mended else "prepare the data again"
    which = f"{', '.join(names)} in {plan.data} is damaged, {todo}" if names else todo
    return Ending(ExitCode.FAILED, Cause.TRAINING, f"the training data cannot be read: {damage}; {which}")


def last_word(plan: Plan, ending: Ending, observer: Observer, completed: int) -> HostStatus:
    """The host's status from here on, with `completed` steps in the newest checkpoint; also where the disk is full.

    Where numbers went bad, that is why, whatever else broke when MaxText ended itself by it in the middle of a save.
    """
    not_recorded = ""
    try:
        status = observer.refresh(time.time())
    except OSError as error:
        status = observer.progress.status
        not_recorded = f"; the last metrics are not recorded: {error.strerror}"
    if bad := observer.progress.judge.bad or ending.bad:
        ending = _of_numbers(plan, bad)
    ending = dataclasses.replace(ending, reason=f"{ending.reason}{not_recorded}")
    ended = status.ended(ending.code, ending.reason, ending.cause)
    return dataclasses.replace(ended, step=max(status.step, completed), bad=bad and dataclasses.asdict(bad))


def _of_numbers(plan: Plan, bad: BadStep) -> Ending:
    return of_numbers(bad, plan.records_of(bad.step))


def _completed(plan: Plan) -> int:
    directory: Any = epath.Path(plan.checkpoints)
    return completed_steps(directory, is_remote(plan.checkpoints))


def _die_with(supervisor: int) -> None:
    """No training outlives its supervisor, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(int(ExitCode.FAILED))


def _leave(code: ExitCode) -> NoReturn:
    """End the process. After a failure without JAX's goodbye, which waits minutes for hosts that do not come."""
    if code not in (ExitCode.FINISHED, ExitCode.INTERRUPTED):
        _break_off(code)
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(int(code))


def _break_off(code: ExitCode) -> NoReturn:
    """End the process at once, from any thread, with those that it has started."""
    sys.stdout.flush()
    sys.stderr.flush()
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(int(code))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
