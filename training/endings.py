"""Why a training ended, as a cause and one sentence. A leaf: standard library only, and nothing is asked or done.

Owns the causes, and reading them out of exceptions, exit codes and the end of a training's stderr. Refuses to own what
follows from a cause: the others are told by training/peers.py, another start is training/restarts.py's.
"""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from training.bucket_errors import bucket_error
from training.exit_codes import ExitCode
from training.loss_judge import BadStep
from training.plan import Plan


class Cause(StrEnum):
    DONE = "done"
    STOPPED = "stopped"  # told to, and saved
    CUT_SHORT = "cut short"  # told to, before it could save
    STANDSTILL = "standstill"
    LOST_HOST = "lost host"  # another one is gone, and could not say why
    OUTSIDE = "outside"  # a service or device that may be there again: worth another start
    INPUT = "input"
    TRAINING = "training"  # its own error, which comes again at the same step
    NUMBERS = "numbers"  # a loss or norm that is none, or a loss beyond its bound: the same steps give the same again


@dataclass(frozen=True)
class Ending:
    code: ExitCode
    cause: Cause
    reason: str
    bad: BadStep | None = None  # of numbers

    @staticmethod
    def of(said: Mapping[str, Any]) -> Ending:
        """From what `asdict` makes of one, on its way between processes."""
        return Ending(ExitCode(said["code"]), Cause(said["cause"]), said["reason"], BadStep.of(said.get("bad")))


# On CPU devices hosts exchange numbers through Gloo; the rest is JAX's word for a host that does not answer.
_LOST_HOST = ("Gloo", "UNAVAILABLE", "Connection closed by peer", "Connection reset", "Socket closed", "heartbeat")
_OF_A_STORE = re.compile(r"gs://|s3://|Error (reading|writing) ")
# A store that is overloaded or away beyond its client's retries, a device that a process of before has not let go yet.
_OUTSIDE = re.compile(
    r"HTTP[a-z ]*:? ?(429|50[0234])\b|\b(429|50[0234]) (GET|POST|PUT|PATCH|DELETE|HEAD)\b|DEADLINE_EXCEEDED|"
    r"Device or resource busy|already in use by (a )?process|Unable to initialize backend"
)
# ArrayRecord's words.
_UNREADABLE = re.compile(r"(?P<found>Corrupted Riegeli/records file: .*?)(\)\.?)?$", re.MULTILINE)
# A read through a mount that nobody serves any more (the kernel's word for that is the first), or serves badly.
_THROUGH_MOUNT = re.compile(
    r"(?P<found>(\w+\(\) failed: |\[Errno \d+\] )?"
    r"(Transport endpoint is not connected|Input/output error|Stale file handle|No such file).*?)"
    r"(\)\.?)?$",
    re.MULTILINE,
)
_UNHEALTHY = re.compile(r"tasks are unhealthy.*?:\n[\n ,]*(?P<tasks>\d[\d\n ,]*)")
_GLOO_ABORT = re.compile(r"gloo::|Is there a distributed collective mismatch")  # by a thread of its own


def nothing_left(completed: int, steps: int) -> Ending:
    """A start that found all steps done; MaxText would call that an error."""
    said = f"nothing left to train: a checkpoint holds {completed} steps, and steps is {steps}"
    return Ending(ExitCode.FINISHED, Cause.DONE, said)


def how_it_ended(steps: int, completed: int, stop_reason: str | None) -> Ending:
    """A training that returned, with `completed` steps in the newest checkpoint and what MaxText said of a stop."""
    if completed == steps:
        return Ending(ExitCode.FINISHED, Cause.DONE, f"all {steps} steps are done and saved")
    if stop_reason and "SIGTERM" in stop_reason:
        return Ending(ExitCode.INTERRUPTED, Cause.STOPPED, f"told to stop; {completed} of {steps} steps are saved")
    reason = stop_reason or "MaxText stopped without a reason"
    if "run out of training data" in reason:
        reason = "out of training data"
    said = f"{reason} after {completed} of {steps} steps (in the newest checkpoint)"
    return Ending(ExitCode.FAILED, Cause.TRAINING, said)


def of_numbers(bad: BadStep, records: str) -> Ending:
    """A training whose numbers have gone bad. records: the file that names what the step read; empty for synthetic."""
    look = f"look at the data that it read ({records})" if records else "look at the data"
    return Ending(
        ExitCode.REPEATED,
        Cause.NUMBERS,
        f"{bad}: lower the learning rate or {look}; `slipway replay` does the step again by itself, "
        f"and the next start goes on before checkpoint {bad.spoiled}",
        bad,
    )


def unreadable_data(text: str) -> str:
    """Why a record of the training data could not be read, with the byte, where an error says that; else ''."""
    found = _UNREADABLE.search(text)
    return _shortened(found["found"]) if found else ""


def of_mount(text: str, plan: Plan) -> Ending | None:
    """An error of reading the training data through its mount, which is made again; None for every other error."""
    found = _THROUGH_MOUNT.search(text)
    if not (plan.data_mounted_from and plan.data in text and found):
        return None
    return _failed(
        f"the mount of {plan.data_mounted_from} went away, so the training data cannot be read: "
        f"{_shortened(found['found'].strip())}; the next start waits until it is mounted again",
        Cause.OUTSIDE,
    )


def is_lost_host(error: BaseException) -> bool:
    """Whether it is an exchange with another host that failed, not one with a store or with this host's own devices."""
    text = str(error)
    of_a_store = _OF_A_STORE.search(text) or bucket_error([error])
    return any(word in text for word in _LOST_HOST) and not of_a_store and "Unable to initialize backend" not in text


def of_error(error: BaseException, stop_reason: str | None, hosts: int = 1) -> Ending:
    """An exception that ended a training, by its most telling cause."""
    chain = _chain(error)
    text = " ".join(str(link) for link in chain)
    full = any(isinstance(link, OSError) and link.errno == errno.ENOSPC for link in chain)
    if full or "No space left on device" in text:
        return _failed(f"no space left on the disk: {sentence(error)}; the previous checkpoint stands")
    if "Read-only file system" in text:
        return _failed(f"the disk cannot be written any more: {sentence(error)}; the previous checkpoint stands")
    lost_host = hosts > 1 and is_lost_host(error)
    if not lost_host and (of_a_bucket := bucket_error(chain)):
        stands = "" if of_a_bucket.is_loss else "; the previous checkpoint stands"
        reason = f"{_shortened(str(of_a_bucket))}{stands}"
        return _failed(reason, Cause.OUTSIDE if of_a_bucket.passes else Cause.TRAINING)
    if "RESOURCE_EXHAUSTED" in text:
        return _failed(f"out of device memory: {sentence(error)}")
    if stop_reason and isinstance(error, SystemExit):
        return _failed(f"{stop_reason.rstrip('.')}: lower the learning rate or look at the data")
    return _failed(sentence(error), Cause.LOST_HOST if lost_host else _cause_of(text))


def of_process(code: int, stderr: str, plan: Plan, stopping: bool) -> Ending:
    """What an end means that the training process did not explain itself; `stopping`: this host was told to stop.

    code: its return code, negative for a signal. stderr: the end of it.
    """
    if stopping:
        reason = "told to stop before it could save; the newest checkpoint stands"
        return Ending(ExitCode.INTERRUPTED, Cause.CUT_SHORT, reason)
    if -code == signal.SIGTERM:
        return Ending(ExitCode.INTERRUPTED, Cause.CUT_SHORT, "told to stop before training began")
    if lost := _lost_host(stderr, plan):
        return _failed(lost, Cause.LOST_HOST)
    if -code == signal.SIGKILL:
        return _failed("killed (SIGKILL); if nobody did it, the machine ran out of memory: see `dmesg`")
    lines = [line for line in stderr.splitlines() if line.strip() and not line.lstrip().startswith(("@", "***"))]
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    last = lines[-1][:300] if lines else "(none)"
    return _failed(f"ended by {how} without a word of its own; last line of its log: {last}", _cause_of(last))


def sentence(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {_shortened(' '.join(lines[:3]))}"


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it came from."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return chain


def _failed(reason: str, cause: Cause = Cause.TRAINING) -> Ending:
    return Ending(ExitCode.FAILED, cause, reason)


def _cause_of(text: str) -> Cause:
    return Cause.OUTSIDE if _OUTSIDE.search(text) else Cause.TRAINING


def _lost_host(stderr: str, plan: Plan) -> str:
    """Which host was missed and how, from what JAX's coordination service or Gloo wrote; else ''."""
    if found := _UNHEALTHY.search(stderr):
        lost = found["tasks"].replace(",", " ").split()
        if str(plan.index) in lost:
            return f"no host gave a sign of life for {plan.heartbeat_s} s, this one included: the machine stood still"
        named = ", ".join(lost)
        return f"host {named} was lost (no sign of life for {plan.heartbeat_s} s); see host {named} for why"
    if "CoordinationService/RegisterTask" in stderr:
        met = f"the {plan.count} hosts did not meet at {plan.coordinator} within {plan.connect_timeout_s} s"
        return f"{met}; see the other hosts"
    if "Failed to send RPC to coordination service" in stderr or "leader task was preempted" in stderr:
        return f"host 0 was lost (the coordinator {plan.coordinator} is gone); see host 0 for why"
    if not _GLOO_ABORT.search(stderr):
        return ""
    if plan.count == 2:
        return f"host {1 - plan.index} was lost (in the middle of an exchange); see host {1 - plan.index} for why"
    return "another host was lost in the middle of an exchange; see the host that ended first for why"


def _shortened(text: str) -> str:
    """Without its middle where it is long: TensorStore begins with what it did and ends with the cause."""
    return text if len(text) <= 400 else f"{text[:180]} ... {text[-215:]}"
