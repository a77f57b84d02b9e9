"""The processes of an emulated cluster: started one by one, watched, and ended with whoever started them.

Owns their lives. Each is told by the kernel to end when the thread that started it does, so start them where the
emulator lives. Refuses to own what they are told (components.py).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import psutil

from infra.emulators.cluster.components import Component
from infra.labelled_processes import labelled
from infra.sentences import SentenceError

LABEL = "SLIPWAY_EMULATED_CLUSTER"  # in the environment of each component: the cluster's directory
_PR_SET_PDEATHSIG = 1
_LIMIT_S = 300.0  # which only a hang reaches
_PAUSE_S = 0.05
_LAST_LINES = 8
_END_S = 10.0


class ComponentError(SentenceError):
    """A component has ended, or does not come up; the message has the end of its log."""


@dataclass
class Processes:
    """Context manager. `directory`: the cluster's; `log`: where each component's output goes; `authority`: of TLS."""

    directory: Path
    log: Callable[[str], Path]
    authority: Path
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict[str, subprocess.Popen[bytes]])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """etcd in its own time, for it holds what may be kept; all others keep nothing."""
        for name, process in self._running.items():
            process.send_signal(signal.SIGTERM if name == "etcd" else signal.SIGKILL)
        for process in self._running.values():
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        left = processes_of(self.directory)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, _END_S)

    def start(self, component: Component) -> None:
        """Its log begins anew."""
        log = self.log(component.name)
        log.parent.mkdir(exist_ok=True)
        with log.open("wb") as sink:
            self._running[component.name] = subprocess.Popen(
                component.command,
                cwd=self.directory,
                env={"PATH": os.defpath, "HOME": str(self.directory), LABEL: str(self.directory)},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is the emulator's, which ends them in order
                preexec_fn=_end_with(os.getpid()),
            )

    def wait_ready(self, component: Component) -> None:
        """Raises ComponentError."""
        ends = time.monotonic() + _LIMIT_S
        while not self._is_ready(component.ready_url):
            self.check()
            if time.monotonic() > ends:
                raise ComponentError(f"{component.name} is not ready; {self._end_of_log(component.name)}")
            time.sleep(_PAUSE_S)

    def check(self) -> None:
        """Raises ComponentError where one has ended."""
        for name, process in self._running.items():
            if (code := process.poll()) is not None:
                raise ComponentError(f"{name} has ended with code {code}; {self._end_of_log(name)}")

    def _is_ready(self, url: str) -> bool:
        """Asked without a proxy, which does not know this machine's loopback."""
        trusted = ssl.create_default_context(cafile=str(self.authority))
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted)
        )
        try:
            with opener.open(url, timeout=10) as answer:
                return answer.status == 200
        except OSError:  # not there yet, or an answer that says so
            return False

    def _end_of_log(self, name: str) -> str:
        lines = self.log(name).read_text(errors="replace").splitlines()[-_LAST_LINES:]
        return "\n".join(["the end of its log:", *lines])


def processes_of(directory: Path) -> list[psutil.Process]:
    """All that the cluster in `directory` runs, whoever started them."""
    return labelled(LABEL, lambda value: value == str(directory))


def _end_with(parent: int) -> Callable[[], None]:
    def prepare() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before it could be told of
            os._exit(1)

    return prepare
