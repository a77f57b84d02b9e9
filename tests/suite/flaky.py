"""`make flaky N=5`: the whole suite N times, in random order, beside processes that keep both cores busy.

Prints what did not pass each time, with the seed that repeats the order. Exits 0 only if every run was clean. Two
suites at once are no better load: their trainings wait for each other, and a run takes four times as long.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

from tests.suite.__main__ import ROOT, WORK

_BUSY = "import os\nos.nice(5)\nwhile os.getppid() == {parent}: sum(range(100000))"


def _busy() -> subprocess.Popen[bytes]:
    """Computes until this process has ended, with a third of a test's weight: a run then takes half as long again."""
    return subprocess.Popen([sys.executable, "-c", _BUSY.format(parent=os.getpid())])


def _run(number: int, times: int) -> bool:
    """Whether it was clean; if not, it prints the names of the tests that did not pass."""
    seed = random.SystemRandom().randrange(10**6)
    work = WORK / f"flaky-{number}"
    work.mkdir(parents=True, exist_ok=True)
    for file in work.glob("*.jsonl"):
        file.unlink()
    log = work / "log"
    with log.open("w") as output:
        order = ["--shuffle", str(seed), "--seed", str(seed)]
        command = [sys.executable, "-m", "tests.suite", *order, "--work", str(work)]
        code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    ran = [json.loads(line) for file in sorted(work.glob("*.jsonl")) for line in file.read_text().splitlines()]
    failed = [one["name"] for one in ran if one["outcome"] == "failed"]
    failed = failed or ([f"exit code {code}; see {log}"] if code else [])
    said = "clean" if not failed else f"{len(failed)} did not pass (see {log})"
    lines = [f"run {number} of {times}, seed {seed}, {len(ran)} tests: {said}", *(f"  {name}" for name in failed)]
    print("\n".join(lines), flush=True)
    return not failed


def main(times: int) -> int:
    """0 if all runs were clean."""
    busy = [_busy() for _ in range(os.cpu_count() or 1)]
    try:
        clean = sum(_run(number, times) for number in range(1, times + 1))
    finally:
        for process in busy:
            process.kill()
            process.wait()
    print(f"{clean} of {times} clean")
    return 0 if clean == times else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
