"""The status file: what is written is read, whole, by infra's reader and from bootstrap.sh's writer."""

from __future__ import annotations

import threading
from pathlib import Path

from training.host_status import HostStatus, Phase, read_status, write_status

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


def test_final_phases() -> None:
    assert [phase for phase in Phase if phase.final] == [Phase.FINISHED, Phase.INTERRUPTED, Phase.FAILED]
