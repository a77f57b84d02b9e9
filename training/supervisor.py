"""Runs the training process and has the last word on how it ended.

Owns signals, the training's stderr, and the reason for an end that the training could not give itself: JAX aborts the
process when a host is lost, the kernel kills it when memory runs out. Refuses to own what the training knows
(training/trainer.py writes the status of an end that it sees). Standard library only: cheap beside a training.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from training.exit_codes import ExitCode
from training.host_status import HostStatus, Phase, read_status, write_status
from training.plan import Plan

_TAIL_LINES = 400
_PEER_GRACE_S = 2.0  # a lost host was often told to stop, and so is this one a moment later
_UNHEALTHY = re.compile(r"tasks are unhealthy.*?:\n[\n ,]*(?P<tasks>\d[\d\n ,]*)")
# On CPU devices hosts exchange numbers through Gloo, whose own thread ends the process where a peer's half is missing.
_GLOO_ABORT = re.compile(r"gloo::|Is there a distributed collective mismatch")


def run(plan: Plan, plan_path: Path, environ: Mapping[str, str]) -> HostStatus:
    """Train to an end, passing SIGTERM and SIGINT on, and return the final status, which is also written.

    The training is of this process's group, dies with this process, and leaves no process of its own behind.
    """
    supervisor = _Supervisor(plan_path.parent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, supervisor.told_to_stop)
    code, stderr = supervisor.train(plan, plan_path, environ)
    status = read_status(plan_path.parent)
    assert status  # launch has written one
    if not status.phase.final:
        if _lost_host(stderr, plan):
            time.sleep(_PEER_GRACE_S)
        status = status.ended(*translate(code, stderr, plan, supervisor.stopping))
        write_status(plan_path.parent, status)
    return status


class _Supervisor:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._child: subprocess.Popen[bytes] | None = None
        self.stopping = False

    def train(self, plan: Plan, plan_path: Path, environ: Mapping[str, str]) -> tuple[int, str]:
        """The training's return code (negative: a signal) and the end of its stderr, which is passed on as it comes."""
        command = [sys.executable, "-m", "training.trainer", str(plan_path), str(os.getpid())]
        child = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE)
        self._child = child
        if self.stopping:  # told between the handler's installation and here
            child.kill()
        tail: deque[bytes] = deque(maxlen=_TAIL_LINES)
        reader = threading.Thread(target=_pass_on, args=(child, tail), daemon=True)
        reader.start()
        code = child.wait()
        reader.join(timeout=5.0)  # a data worker may still hold the pipe
        return code, b"".join(tail).decode(errors="replace")

    def told_to_stop(self, number: int, frame: FrameType | None) -> None:
        """Pass a SIGTERM on. JAX swallows it until the next step, so before the first one there is nothing to await."""
        self.stopping = True
        if self._child is None or self._child.poll() is not None:
            return
        self._child.send_signal(signal.SIGTERM)
        status = read_status(self._directory)
        if status and status.phase in (Phase.STARTING, Phase.COMPILING):
            self._child.kill()


def translate(code: int, stderr: str, plan: Plan, stopping: bool) -> tuple[ExitCode, str]:
    """What an end means that the training process did not explain itself; `stopping`: this host was told to stop."""
    if stopping:
        return ExitCode.INTERRUPTED, "told to stop before it could save; the newest checkpoint stands"
    if -code == signal.SIGTERM:
        return ExitCode.INTERRUPTED, "told to stop before training began"
    if lost := _lost_host(stderr, plan):
        return ExitCode.FAILED, lost
    if -code == signal.SIGKILL:
        return ExitCode.FAILED, "killed (SIGKILL); if nobody did it, the machine ran out of memory: see `dmesg`"
    lines = [line for line in stderr.splitlines() if line.strip() and not line.lstrip().startswith(("@", "***"))]
    how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return (
        ExitCode.FAILED,
        f"ended by {how} without a word of its own; last line of its log: {lines[-1][:300] if lines else '(none)'}",
    )


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


def _pass_on(child: subprocess.Popen[bytes], tail: deque[bytes]) -> None:
    assert child.stderr
    with child.stderr:
        for line in child.stderr:
            tail.append(line)
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
