"""Child processes of the provider, with real processes: what they write, hold and leave behind must not hold us."""

from __future__ import annotations

import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from infra.providers import children
from infra.providers.resource import CancelledError, Context, DeadlineError, ResourceError

NEVER_S = 3600.0
PATIENCE_S = 900.0  # of a test, for what ends at once


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    children.end_all()


def context(
    timeout_s: float = NEVER_S,
    report: Callable[[str], None] = lambda _: None,
    cancelled: threading.Event | None = None,
) -> Context:
    return Context("", time.monotonic() + timeout_s, cancelled or threading.Event(), report, lambda _: None)


def outcome(call: Context, code: str, directory: Path) -> str | ResourceError:
    """What running Python `code` comes to: its last line, or the error. Fails where it does not end."""
    results: list[str | ResourceError] = []

    def run() -> None:
        try:
            results.append(children.run(call, "the work", [sys.executable, "-c", code], {}, str(directory)))
        except ResourceError as error:
            results.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert results, "it has not ended"
    return results[0]


def until_gone(pid: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end, f"process {pid} goes on"
        time.sleep(0.02)


FLOOD = "while True: print('y' * 100)"
# A process that keeps both pipes open; `how` is how it is started, its pid is what the child says last.
HOLDER = "import subprocess; print(subprocess.Popen(['sleep', '3600']{how}).pid, flush=True)"
OWN_SESSION = ", start_new_session=True"


def test_a_flood_of_output_ends_at_the_deadline(tmp_path: Path) -> None:
    assert isinstance(outcome(context(timeout_s=1), FLOOD, tmp_path), DeadlineError)


def test_a_flood_of_output_ends_with_ctrl_c(tmp_path: Path) -> None:
    cancelled = threading.Event()
    call = context(report=lambda _: cancelled.set(), cancelled=cancelled)
    assert isinstance(outcome(call, FLOOD, tmp_path), CancelledError)


def test_a_flood_is_not_kept(tmp_path: Path) -> None:
    """Neither as lines nor as one line without an end; a child's own words at its end are there all the same."""
    lines, one_line = (
        "[print('y' * 100) for _ in range(300_000)]",
        "[sys.stdout.write('x' * 100_000) for _ in range(300)]",
    )
    tracemalloc.start()
    try:
        last = outcome(context(), f"import sys; {lines}; {one_line}; print('\\nthe result')", tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert last == "the result"
    assert peak < 10_000_000, "60 MB were written"


def test_a_line_without_an_end_is_shown_by_its_beginning(tmp_path: Path) -> None:
    failed = outcome(
        context(), "import sys; sys.stderr.write('no such lock ' + 'x' * 10_000_000); sys.exit(1)", tmp_path
    )
    assert isinstance(failed, ResourceError)
    assert str(failed).startswith("the work failed: no such lock xxx") and len(str(failed)) < 2000


@pytest.mark.parametrize("how", ["", OWN_SESSION])
def test_a_grandchild_that_holds_the_pipe_ends_with_its_child(how: str, tmp_path: Path) -> None:
    last = outcome(context(), HOLDER.format(how=how), tmp_path)
    assert isinstance(last, str)
    until_gone(int(last))


@pytest.mark.parametrize("how", ["", OWN_SESSION])
def test_a_grandchild_that_floods_the_pipe_ends_with_its_child(how: str, tmp_path: Path) -> None:
    flood = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {FLOOD!r}]{how}); print('the result')"
    assert isinstance(outcome(context(), flood, tmp_path), str)


@pytest.mark.parametrize("how", ["", OWN_SESSION])
def test_ctrl_c_ends_grandchildren_too(how: str, tmp_path: Path) -> None:
    cancelled, said = threading.Event(), list[str]()

    def report(message: str) -> None:
        said.append(message)
        cancelled.set()

    call = context(report=report, cancelled=cancelled)
    code = HOLDER.format(how=how) + "; import time; time.sleep(3600)"
    assert isinstance(outcome(call, code, tmp_path), CancelledError)
    until_gone(int(said[0].removeprefix("the work: ")))


def test_a_child_that_was_ended_for_want_of_an_engine_is_not_waited_for(tmp_path: Path) -> None:
    code = "print('at work', flush=True); import time; time.sleep(3600)"
    ended = outcome(context(report=lambda _: children.end_all()), code, tmp_path)
    assert isinstance(ended, ResourceError)
    assert str(ended) == "the work failed: at work"


def test_a_child_that_closes_its_pipes_is_waited_for(tmp_path: Path) -> None:
    code = "import os; os.close(1); os.close(2); import time; time.sleep(3600)"
    assert isinstance(outcome(context(timeout_s=1), code, tmp_path), DeadlineError)


def test_the_latest_line_is_shown_and_the_last_of_standard_output_is_the_result(tmp_path: Path) -> None:
    said: list[str] = []

    def report(message: str) -> None:
        said.append(message)
        (tmp_path / f"seen {len(said)}").touch()

    code = (
        "import pathlib, sys, time\n"
        "def say(text, file, seen):\n"
        "    file.write(text); file.flush()\n"
        "    while not pathlib.Path(seen).exists(): time.sleep(0.01)\n"
        "say('first\\n', sys.stdout, 'seen 1')\n"
        "say('a bar\\rlonger bar\\n', sys.stdout, 'seen 2')\n"
        "say('a warning\\n', sys.stderr, 'seen 3')\n"
    )
    assert outcome(context(report=report), code, tmp_path) == "longer bar"
    assert said == ["the work: first", "the work: longer bar", "the work: a warning"]


def test_output_that_is_no_text_is_no_fault(tmp_path: Path) -> None:
    code = r"import os; os.write(1, b'\xff\xfe' * 100_000 + b'\n'); os.write(1, b'caf\xe9\n')"
    assert outcome(context(), code, tmp_path) == "caf\N{REPLACEMENT CHARACTER}"


def test_a_failure_is_said_in_its_last_words(tmp_path: Path) -> None:
    code = "import sys; print('fine'); [print(word, file=sys.stderr) for word in 'abcd']; sys.exit(3)"
    failed = outcome(context(), code, tmp_path)
    assert str(failed) == "the work failed: b c d"
    assert str(outcome(context(), "raise SystemExit(3)", tmp_path)) == "the work failed: exit code 3"


def test_nothing_goes_on_when_the_engine_is_gone(tmp_path: Path) -> None:
    said: list[str] = []
    shown = threading.Event()

    def report(message: str) -> None:
        said.append(message)
        shown.set()

    code = HOLDER.format(how=OWN_SESSION) + "; import time; time.sleep(3600)"
    thread = threading.Thread(target=outcome, args=(context(report=report), code, tmp_path), daemon=True)
    thread.start()
    assert shown.wait(PATIENCE_S)
    children.end_all()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    until_gone(int(said[0].removeprefix("the work: ")))
