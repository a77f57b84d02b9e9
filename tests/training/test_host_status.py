"""The status file: what is written is read, whole, by infra's reader and from bootstrap.sh's writer."""

from __future__ import annotations

import dataclasses
import json
import shlex
import subprocess
import sys
import threading
from pathlib import Path

from tests.training.cluster import ROOT, free_port, plain_environment
from tests.training.tiny import TINY
from training.host_status import HostStatus, Phase, of, read_status, write_status
from training.run_spec import RunSpec

FULL = HostStatus(Phase.TRAINING, 1.0, 2.0, 3, 4, 5.0, 6.0, 7.0, 8.0, 9.0, 10, 11, "twelve")


def test_written_status_is_read(tmp_path: Path) -> None:
    assert read_status(tmp_path) is None
    write_status(tmp_path, FULL)
    assert read_status(tmp_path) == FULL
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_status_of_another_release_is_read(tmp_path: Path) -> None:
    """The operator's may be older than the host's, and newer."""
    (tmp_path / "status.json").write_text('{"phase": "training", "started": 1, "updated": 2, "mood": "good"}')
    assert read_status(tmp_path) == HostStatus(Phase.TRAINING, 1, 2)


def test_reader_never_sees_half_a_status(tmp_path: Path) -> None:
    write_status(tmp_path, FULL)
    done = threading.Event()

    def write() -> None:
        for _ in range(500):
            write_status(tmp_path, FULL)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        assert read_status(tmp_path) == FULL
    writer.join()


def test_a_start_on_a_disk_without_any_room_says_so_in_its_status(tmp_path: Path) -> None:
    """A real one, on which all that a host has lies. What stood in its status before is gone whole."""
    spec = RunSpec("t", "r", "cpu", 1, 1, 2, 9, "gs://bucket/out", None, TINY)
    (tmp_path / "run_spec.yaml").write_text(spec.to_yaml())
    host = tmp_path / "host"
    host.mkdir()
    launch = f"{shlex.quote(sys.executable)} -m training.launch run_spec.yaml --host-dir host"
    script = f"""
        mount -t tmpfs -o size=256k none host
        cp {shlex.quote(str(tmp_path))}/before host/status.json
        ! cat /dev/zero >host/everything 2>/dev/null || exit 1
        code=0; {launch} >/dev/null 2>&1 || code=$?
        echo "$code"; cat host/status.json
    """
    before = dataclasses.replace(FULL, phase=Phase.FAILED, reason="long " * 100)
    (tmp_path / "before").write_text(json.dumps(dataclasses.asdict(before)))
    environ = {"SLIPWAY_HOST_INDEX": "0", "SLIPWAY_HOST_COUNT": "1", "SLIPWAY_COORDINATOR": f"127.0.0.1:{free_port()}"}
    done = subprocess.run(
        ["unshare", "-Urm", "bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=plain_environment() | environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    code, status = done.stdout.splitlines()
    word = of(json.loads(status))
    assert (code, word.phase, word.exit_code, word.reason) == ("1", Phase.FAILED, 1, "No space left on device")


def test_final_phases() -> None:
    assert [phase for phase in Phase if phase.final] == [Phase.FINISHED, Phase.INTERRUPTED, Phase.FAILED]
