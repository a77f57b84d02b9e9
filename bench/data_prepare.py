"""How fast and how large data preparation is, measured on the real command in the hosts' environment.

Runs in the operator's environment; SLIPWAY_HOST_PYTHON names the hosts' Python. The text is this Python's standard
library over and over in files of 1 MB, so it compresses and tokenizes as source code does. Rates are per CPU second of
all processes together, so that other work on the machine does not show; wall time is in the detail.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from bench.record import Figure, figure
from infra.paths import ROOT
from training.data.identity import STDLIB, corpus_files, read_manifest

FILE_BYTES = 1_000_000
SPEED_BYTES = 100_000_000
SMALL_BYTES, LARGE_BYTES = 10_000_000, 1_000_000_000
REPETITIONS = 5
_POLL_S = 0.01

_COUNT = """
import sys, time
from pathlib import Path
from training.data.vocabulary import Encoding, count
directory = Path(sys.argv[1])
encoding = Encoding(directory / "tokenizer.model", True, True)
shards = sorted(directory.glob("*.array_record"))
for _ in range(int(sys.argv[2])):
    started = time.process_time()
    for shard in shards:
        count(shard, encoding)
    print(time.process_time() - started)
"""


@dataclass(frozen=True)
class Cost:
    """Of one command with all its processes: wall and CPU seconds, and the sum of each process's peak memory."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def figures() -> list[Figure]:
    """All figures; about four minutes, and 4 GB in the temporary directory."""
    with tempfile.TemporaryDirectory(prefix="slipway bench ") as scratch:
        directory = Path(scratch)
        return [_speed(directory), _memory(directory), _tokenizing(directory)]


def main(argv: Sequence[str]) -> int:
    """Print the figures as JSON lines. Fails if one does not reach what is claimed."""
    if argv:
        print("bench.data_prepare takes no arguments", file=sys.stderr)
        return 2
    found = figures()
    for one in found:
        print(one.to_json(), flush=True)
    return 0 if all(one.ok for one in found) else 1


def _speed(scratch: Path) -> Figure:
    corpus = _corpus(scratch / "speed", SPEED_BYTES)
    costs = [_cost(scratch, [str(corpus), "--tokenizer", "none", "--processes", "1"]) for _ in range(REPETITIONS)]
    return figure(
        "data_prepare_mb_per_s_per_core",
        [SPEED_BYTES / 1e6 / cost.cpu_s for cost in costs],
        "MB of text per CPU second",
        ">= 20",
        wall_mb_per_s=[round(SPEED_BYTES / 1e6 / cost.wall_s, 1) for cost in costs],
    )


def _memory(scratch: Path) -> Figure:
    peaks: list[int] = []
    for size in (SMALL_BYTES, LARGE_BYTES):
        corpus = _corpus(scratch / f"memory-{size}", size)
        peaks.append(_cost(scratch, [str(corpus), "--tokenizer", "none", "--processes", "2"]).peak_bytes)
        _remove(corpus)
    megabytes = [round(peak / 1e6, 1) for peak in peaks]
    return figure("data_prepare_memory_ratio_1gb_vs_10mb", [peaks[1] / peaks[0]], "ratio", "<= 1.2", peak_mb=megabytes)


def _tokenizing(scratch: Path) -> Figure:
    out = scratch / "tokenized"
    whole = _run([*_command(), STDLIB, "--out", str(out)], scratch)
    manifest = read_manifest(out)
    text_bytes = manifest.train.bytes + manifest.heldout.bytes
    tokens = (manifest.train.tokens or 0) + (manifest.heldout.tokens or 0)
    program = [_host_python(), "-c", _COUNT, str(out), str(REPETITIONS)]
    found = subprocess.run(program, check=True, capture_output=True, text=True, env=_environment(), cwd=scratch)
    return figure(
        "data_tokenize_mb_per_s_per_core",
        [text_bytes / 1e6 / float(seconds) for seconds in found.stdout.split()],
        "MB of text per CPU second",
        "",
        stdlib_wall_s=round(whole.wall_s, 1),
        stdlib_cpu_s=round(whole.cpu_s, 1),
        stdlib_bytes_per_token=round(text_bytes / tokens, 3),
    )


def _host_python() -> str:
    python = os.environ.get("SLIPWAY_HOST_PYTHON")
    if not python:
        raise SystemExit("SLIPWAY_HOST_PYTHON is not set: name the Python of the hosts' environment")
    return python


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


def _command() -> list[str]:
    return [_host_python(), "-m", "training.data.prepare"]


def _corpus(directory: Path, size: int) -> Path:
    """Files of FILE_BYTES in `directory`, `size` bytes in all."""
    directory.mkdir()
    sources = cycle([file.path for file in corpus_files([STDLIB], ROOT)])
    held = b""
    for number in range(size // FILE_BYTES):
        while len(held) < FILE_BYTES:
            held += next(sources).read_bytes()
        cut = held[:FILE_BYTES].decode(errors="ignore").encode()  # whole characters
        (directory / f"{number:05d}.txt").write_bytes(cut)
        held = held[len(cut) :]
    return directory


def _cost(scratch: Path, arguments: Sequence[str]) -> Cost:
    out = scratch / "out"
    cost = _run([*_command(), *arguments, "--out", str(out)], scratch)
    _remove(out)
    return cost


def _run(command: Sequence[str], cwd: Path) -> Cost:
    started = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=_environment(), cwd=cwd)
    peaks: dict[int, int] = {}
    while True:
        for pid in _family(process.pid):
            peaks[pid] = _peak_bytes(pid) or peaks.get(pid, 0)  # the last word: a fork starts with its parent's peak
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        time.sleep(_POLL_S)
    wall_s = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
    return Cost(wall_s, usage.ru_utime + usage.ru_stime, sum(peaks.values()))


def _family(pid: int) -> Iterator[int]:
    """A process and all its descendants."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from _family(int(child))


def _peak_bytes(pid: int) -> int:
    """The most resident memory that a process has had; 0 once it has ended."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0


def _remove(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
