"""`make test`: the operator's tests and the hosts', each in its environment, and at the end what a person looks for.

    python -m tests.suite [--only TESTS] [--args ARGS] [--quick] [--repeat] [--shuffle SEED]

Owns which tests run where and what is said at the end: which tests failed with the command that repeats each alone, and
which took longest. What happens inside a session of pytest is in plugin.py and schedule.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.suite import soak, times

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".slipway" / "suite"
HOSTS = "tests/training"
_LAUNCHES = f"{HOSTS}/test_launch.py"  # takes half of the hosts' time, much of which it waits
OPERATORS = ("tests/unit", "tests/engine")
CLUSTER = "tests/cluster"  # where a Kubernetes control plane is built, which takes minutes
_WORKERS = ("-n", "5")  # on two cores: lives of stacks wait for half of their time
MOST_REPEATED = 5


@dataclass(frozen=True)
class Result:
    """A test that has run. name: pytest's, from the root of the repository; outcome: passed, failed or skipped.

    cpu_s: what of a processor it used, with the processes that it started and that have ended. It tells what a test
    costs where `seconds` tells how busy the machine was.
    """

    name: str
    outcome: str
    seconds: float
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Session:
    """One call of pytest in one of the two environments."""

    name: str
    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()

    def run(self, work: Path, output: IO[str] | None = None) -> tuple[int, list[Result]]:
        """pytest's exit code, and what has run; it is in a file of `work` as well. output: instead of the terminal."""
        work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="slipway-suite-") as scratch:  # another run may write into `work`
            file = Path(scratch, f"{self.name}.jsonl")
            command = [*self.command, f"--results={file}"]  # one word: what is no option tells pytest where it is
            environment = os.environ | dict(self.environment)
            done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=False)
            lines = file.read_text().splitlines() if file.exists() else []
            (work / file.name).write_text("".join(f"{line}\n" for line in lines))
        return done.returncode, [Result(**json.loads(line)) for line in lines]


def sessions(tests: Sequence[str], arguments: Sequence[str], has_cluster: bool = False) -> list[Session]:
    """What runs these tests (all, where none is given; those of a cluster only where one can be started)."""
    operators = [test for test in tests if not test.startswith(HOSTS)]
    hosts = [test for test in tests if test.startswith(HOSTS)]
    found: list[Session] = []
    if operators or not tests:
        every = (*OPERATORS, CLUSTER) if has_cluster else OPERATORS
        workers = () if operators and all(test.partition("::")[0].endswith(".py") for test in operators) else _WORKERS
        command = (sys.executable, "-m", "pytest", *(operators or every), *workers, *arguments)
        found.append(Session("operator", command))
    if hosts or not tests:
        python = subprocess.run(["tools/host-env.sh"], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        parts = {"hosts": hosts} if hosts else {"launches": [_LAUNCHES], "hosts": [HOSTS, f"--ignore={_LAUNCHES}"]}
        for name, part in parts.items():
            found.append(Session(name, (python.strip(), "-m", "pytest", *part, *arguments), (("PATH", path),)))
    return found


def missing_cluster() -> str:
    """Why no cluster can be started here, and what would change it; empty where one can."""
    asked = subprocess.run(["tools/cluster.sh", "find"], cwd=ROOT, capture_output=True, text=True, check=False)
    return asked.stderr.strip() if asked.returncode else ""


def chosen(only: str, quick: bool = False) -> list[str]:
    """Names of tests, several apart by spaces; a name may have spaces itself. Empty for all that there are."""
    if only.strip():
        return re.split(r"\s+(?=tests/)", only.strip())
    return ["tests/unit"] if quick else []


def command_for(test: str) -> str:
    """What repeats one test alone. make takes a dollar for a variable of its own."""
    return f"make test ONLY={shlex.quote(test.replace('$', '$$'))}"


def report(results: Sequence[Result], wall_s: float, flaky: Iterable[str] = ()) -> str:
    """The end of the output: counts, what failed, what took longest, and at the very end what passed when repeated."""
    again = list(flaky)
    failed = [result.name for result in results if result.outcome == "failed" and result.name not in again]
    passed = sum(result.outcome == "passed" for result in results) + len(again)
    cpu_s = sum(result.cpu_s for result in results)
    lines = ["", f"{passed} passed, {len(failed)} failed", f"{wall_s:.0f} s, {cpu_s:.0f} s of a processor"]
    if failed:
        lines += ["", "failed; each alone:", *(f"  {command_for(name)}" for name in failed)]
    slowest = sorted(results, key=lambda result: -result.seconds)[:15]
    lines += ["", "slowest (seconds, and those of a processor):"]
    lines += [f"  {result.seconds:6.1f} s {result.cpu_s:6.1f} s  {result.name}" for result in slowest]
    lines += [f"flaky: {name}" for name in again]
    return "\n".join(lines)


def run_side_by_side(every: Sequence[Session], work: Path) -> tuple[list[int], list[Result]]:
    """Codes and results. The first has the terminal; what others print follows it, for trainings wait half the time."""
    with ThreadPoolExecutor() as pool, contextlib.ExitStack() as files:
        outputs: list[IO[str] | None] = [None]
        outputs += [files.enter_context(tempfile.TemporaryFile("w+")) for _ in every[1:]]
        running = [pool.submit(session.run, work, output) for session, output in zip(every, outputs, strict=True)]
        ended = [one.result() for one in running]
        for output in outputs[1:]:
            assert output
            output.seek(0)
            shutil.copyfileobj(output, sys.stdout)
    return [code for code, _ in ended], [result for _, ran in ended for result in ran]


def repeated(failed: Sequence[str], arguments: Sequence[str], work: Path) -> list[str]:
    """Those of the failed that pass alone."""
    if len(failed) > MOST_REPEATED:
        print(f"{len(failed)} tests failed; more than {MOST_REPEATED} are not repeated")
        return []
    passed: list[str] = []
    for name in failed:
        print(f"\nonce more, alone: {name}", flush=True)
        if all(session.run(work / "repeated")[0] == 0 for session in sessions([name], arguments)):
            passed.append(name)
    return passed


def exit_code(codes: Sequence[int], results: Sequence[Result], flaky: Sequence[str]) -> int:
    """Of the whole suite. codes: pytest's, which also tells what no result does, as a name that matches nothing."""
    failed = {result.name for result in results if result.outcome == "failed"}
    explained = all(code == 0 or (code == 1 and failed) for code in codes)
    return 0 if results and explained and failed <= set(flaky) else 1


def main() -> int:
    """0 if all passed, those that passed when repeated included."""
    parser = argparse.ArgumentParser(prog="make test")
    parser.add_argument("--only", default="", help="files, folders or tests, as pytest names them")
    parser.add_argument("--args", default="", help="for pytest, in both environments")
    parser.add_argument(
        "--repeat", action="store_true", help=f"repeat what failed, alone, if it is {MOST_REPEATED} at most"
    )
    parser.add_argument("--quick", action="store_true", help="of tests/unit what is not marked `long`")
    parser.add_argument("--soak", action="store_true", help="all cases of sampled tests, and only of those")
    parser.add_argument("--seed", type=int, default=1, help="which sample of them otherwise")
    parser.add_argument("--shuffle", type=int, help="seed of a random order")
    parser.add_argument(
        "--record-times", action="store_true", help="write the measured times into tests/suite/times.json"
    )
    parser.add_argument("--work", type=Path, default=WORK, help="folder that gets the results as data")
    options = parser.parse_args()
    arguments = [*shlex.split(options.args), "--seed", str(options.seed)]
    if options.quick:
        arguments += ["-m", "not long"]
    if options.soak:
        arguments += ["-m", "sample"]
        os.environ[soak.VARIABLE] = "1"
    if options.shuffle is not None:
        arguments += ["--shuffle", str(options.shuffle)]
    started = time.monotonic()
    tests, missing = chosen(options.only, options.quick), missing_cluster()
    codes, results = run_side_by_side(sessions(tests, arguments, not missing), options.work)
    failed = [result.name for result in results if result.outcome == "failed"]
    flaky = repeated(failed, arguments, options.work) if options.repeat and failed else []
    if options.record_times:
        seconds = times.by_module((result.name, result.seconds) for result in results)
        times.TIMES.write_text(json.dumps(seconds, indent=1) + "\n")
    if missing and not tests:
        print(f"\n{CLUSTER} is left out: {missing.removeprefix('error: ')}")
    print(report(results, time.monotonic() - started, flaky))
    return exit_code(codes, results, flaky)


if __name__ == "__main__":
    sys.exit(main())
