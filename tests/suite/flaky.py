"""`make flaky N=5`: the whole suite N times, in random order, beside processes that keep both cores busy.

Prints what did not pass each time, with the seed that repeats the order. Exits 0 only if every run was clean.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from tests.suite.__main__ import ROOT, WORK

_BUSY = "import os\nwhile os.getppid() == {parent}: sum(range(100000))"


def _busy() -> subprocess.Popen[bytes]:
    """Computes until this process has ended."""
    return subprocess.Popen([sys.executable, "-c", _BUSY.format(parent=os.getpid())])


def _run(seed: int, log: Path) -> list[str]:
    """Names of the tests that did not pass; of a run that ended otherwise, how."""
    for file in WORK.glob("*.jsonl"):
        file.unlink()
    with log.open("w") as output:
        command = [sys.executable, "-m", "tests.suite", "--shuffle", str(seed), "--seed", str(seed)]
        code = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    ran = [json.loads(line) for file in sorted(WORK.glob("*.jsonl")) for line in file.read_text().splitlines()]
    failed = [one["name"] for one in ran if one["outcome"] == "failed"]
    return failed or ([f"exit code {code}; see {log}"] if code else [])


def main(times: int) -> int:
    """0 if all runs were clean."""
    WORK.mkdir(parents=True, exist_ok=True)
    busy = [_busy() for _ in range(os.cpu_count() or 1)]
    clean = 0
    try:
        for number in range(1, times + 1):
            seed = random.SystemRandom().randrange(10**6)
            failed = _run(seed, WORK / f"flaky-{number}.log")
            clean += not failed
            print(f"run {number}, seed {seed}: {'clean' if not failed else f'{len(failed)} did not pass'}", flush=True)
            for name in failed:
                print(f"  {name}", flush=True)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    print(f"{clean} of {times} clean")
    return 0 if clean == times else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
