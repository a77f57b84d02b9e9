"""One container as a process of this machine: `python -P container.py <directory>`, which spares it the package.

Starts what container.json in that directory says, and ends as it does. A SIGTERM is passed on to that one process, as
to a container's first; what still runs after the grace time is killed, and so is all that the process leaves behind,
and all of it when whoever started this has gone (its end of stdin is closed). Refuses to own what is run
(replica_processes.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psutil

from infra.labelled_processes import labelled

LABEL = "SLIPWAY_EMULATED_REPLICA"  # in the environment of all that a container runs: its directory
SPEC, OUT, ERRORS = "container.json", "stdout.log", "stderr.log"
_CANNOT_RUN = 127


def main(directory: Path) -> int:
    """The exit code of the container: 128 + N where signal N ended it."""
    spec: Any = json.loads((directory / SPEC).read_text())
    stopping = threading.Event()

    def note(*_: object) -> None:
        """Of one that comes before there is anybody to tell."""
        stopping.set()

    signal.signal(signal.SIGTERM, note)
    try:
        with (directory / OUT).open("ab") as out, (directory / ERRORS).open("ab") as errors:
            process = subprocess.Popen(
                spec["argv"],
                cwd=spec["cwd"],
                env={**spec["environment"], LABEL: str(directory)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                start_new_session=True,
            )
    except OSError as error:
        (directory / ERRORS).write_text(f"exec: {error}\n")
        return _CANNOT_RUN
    grace_s = float(spec["grace_s"])

    def stop(*_: object) -> None:
        process.send_signal(signal.SIGTERM)
        timer = threading.Timer(grace_s, end_all, [directory])
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGTERM, stop)
    if stopping.is_set():
        stop()
    threading.Thread(target=_watch_owner, args=[directory], daemon=True).start()
    code = process.wait()
    end_all(directory)
    return 128 - code if code < 0 else code


def _watch_owner(directory: Path) -> None:
    sys.stdin.buffer.read()
    end_all(directory)


def end_all(directory: Path) -> None:
    """Kill all that the container runs, whatever it has started."""
    while left := [each for each in labelled(LABEL, lambda value: value == str(directory)) if each.pid != os.getpid()]:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)


if __name__ == "__main__":
    code = main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(code)  # not waiting for the thread that reads stdin
