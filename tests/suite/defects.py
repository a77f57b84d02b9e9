"""Deliberate defects, and whether the tests that should find them do: `make defects [ONLY=name]`.

`tests/defects/<room>.toml` lists them. Each is a change of one or two lines that a person could make by mistake, with
the tests that find it. It is applied to a copy of the working tree, those tests are run there, and one must fail. The
same tests are run on a copy without any defect first, where all must pass: one that is red anyway finds nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.training.cluster import PATIENCE_VARIABLE
from tests.tree_copy import ROOT, copy_tree

LISTS = ROOT / "tests" / "defects"
_TIMEOUT_S = 900
_PATIENCE_S = 300  # a test that waits for what the defect prevents is red by its own limit
_LABEL = "DEFECT_COPY"  # in the environment of all that its tests start
_NO_TESTS = (4, 5)  # pytest: the name matches nothing


class DefectError(Exception):
    """A list that cannot be used: the text is not there, or a test is not."""


@dataclass(frozen=True)
class Defect:
    """`old`, which stands exactly once in the file, becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def room(self) -> str:
        return str(Path(self.file).parent)

    def applied(self, text: str) -> str:
        """The file's text with the defect in it."""
        if text.count(self.old) != 1:
            raise DefectError(f"{self.name}: its `old` stands {text.count(self.old)} times in {self.file}, not once")
        return text.replace(self.old, self.new)


def load() -> list[Defect]:
    """All of tests/defects/."""
    found: list[Defect] = []
    for path in sorted(LISTS.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["defect"]:
            found.append(Defect(**entry | {"tests": tuple(entry["tests"])}))
    return found


@dataclass(frozen=True)
class Copy:
    """A copy of the working tree with the environments of this one."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Copy:
        copy_tree(directory, ("artifacts", "cache", "env", "installed"))
        subprocess.run(["git", "init", "-q"], cwd=directory, check=True)  # some tests ask git for the tree's files
        subprocess.run(["git", "add", "-A"], cwd=directory, check=True)
        return cls(directory)

    def finds(self, defect: Defect) -> tuple[bool, str]:
        """Whether one of its tests fails, and what they printed."""
        path = self.directory / defect.file
        sound = path.read_text()
        path.write_text(defect.applied(sound))
        try:
            return self._run(defect)
        finally:
            path.write_text(sound)

    def _run(self, defect: Defect) -> tuple[bool, str]:
        printed = ""
        for on_host in (False, True):
            tests = [test for test in defect.tests if on_hosts(test) == on_host]
            if not tests:
                continue
            code, told = self._pytest(tests, "-x", timeout_s=_TIMEOUT_S)
            printed += told
            if code in _NO_TESTS:
                raise DefectError(f"{defect.name}: pytest knows no such tests: {' '.join(tests)}\n{told[-2000:]}")
            if code:
                return True, printed
        return False, printed

    def red(self, tests: Sequence[str]) -> str:
        """What pytest prints of these tests, all of one environment, if one does not pass without a defect."""
        code, told = self._pytest(tests, timeout_s=_TIMEOUT_S * 4)
        return told if code else ""

    def _pytest(self, tests: Sequence[str], *arguments: str, timeout_s: float) -> tuple[int, str]:
        """Exit code and output. Ends whatever the tests have left running."""
        python = self.directory / (".slipway/env/dev/bin/python" if on_hosts(tests[0]) else ".venv/bin/python")
        environment = os.environ | {
            _LABEL: str(self.directory),
            PATIENCE_VARIABLE: str(_PATIENCE_S),
            "PYTHONPATH": str(self.directory),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PATH": os.pathsep.join([str(self.directory / ".venv" / "bin"), os.environ["PATH"]]),
        }
        try:
            done = subprocess.run(
                [str(python), "-m", "pytest", "-p", "no:cacheprovider", *arguments, *tests],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=timeout_s,
            )
        finally:
            self._end_all()
        return done.returncode, done.stdout

    def _end_all(self) -> None:
        """Some defects are that a process is not ended."""
        mine = f"{_LABEL}={self.directory}".encode()
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError):
                    if mine in (entry / "environ").read_bytes().split(b"\0"):
                        os.kill(int(entry.name), signal.SIGKILL)


def on_hosts(test: str) -> bool:
    """Whether a test runs in the hosts' environment."""
    return test.startswith("tests/training/")


def main() -> int:
    """0 if every defect is found."""
    parser = argparse.ArgumentParser(prog="make defects")
    parser.add_argument("--only", default="", help="those whose name, file or list contains this")
    only: str = parser.parse_args().only
    defects = [one for one in load() if only in one.name or only in one.file]
    if not defects:
        print(f"no defect whose name or file contains {only!r}", file=sys.stderr)
        return 2
    started = time.monotonic()
    missed: list[str] = []
    red = threading.Event()  # not all pass without a defect
    todo: queue.SimpleQueue[Defect] = queue.SimpleQueue()
    for defect in defects:
        todo.put(defect)

    def work(directory: Path, controlled: list[str]) -> None:
        copy = Copy.make(directory)
        began = time.monotonic()
        if controlled and (told := copy.red(controlled)):
            red.set()
            print(f"not all pass without a defect:\n{told[-3000:]}", flush=True)
        elif controlled:
            print(f"{len(controlled)} tests pass without a defect  {time.monotonic() - began:5.1f} s", flush=True)
        while True:
            try:
                defect = todo.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            try:
                found, printed = copy.finds(defect)
            except (DefectError, subprocess.TimeoutExpired) as error:
                found, printed = False, str(error)
            print(f"{'found ' if found else 'MISSED'}  {time.monotonic() - began:5.1f} s  {defect.name}", flush=True)
            if not found:
                missed.append(defect.name)
                print(printed[-3000:], flush=True)

    with tempfile.TemporaryDirectory(prefix="slipway-defects-") as scratch:
        tests = sorted({test for defect in defects for test in defect.tests})
        controls = [[test for test in tests if on_hosts(test) == on_host] for on_host in (False, True)]
        workers = [
            threading.Thread(target=work, args=(Path(scratch, str(number)), controlled))
            for number, controlled in enumerate(controls)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    rooms = len({defect.room for defect in defects})
    found = len(defects) - len(missed)
    print(f"{found} of {len(defects)} defects found, in {rooms} rooms, {time.monotonic() - started:.0f} s")
    return 1 if missed or red.is_set() else 0


if __name__ == "__main__":
    sys.exit(main())
