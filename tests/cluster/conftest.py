"""One cluster for all that is tested of clusters: a start of the control plane costs ten seconds of a processor."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from infra.emulators.cluster.processes import processes_of
from tests.cluster.emulator import Emulator, emulate


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """Two slices of four TPU hosts, of a size that no shipped stack has, and two hosts of eight GPUs, with Kueue.

    Who has declared something takes it away, for others have the same nodes. When all is tested it ends as Ctrl-C
    ends it, and leaves nothing that runs.
    """
    state = tmp_path_factory.mktemp("cluster")
    pools = ("--pool", "v5p-32", "--pool", "v5p-32", "--pool", "a3-mega-2")
    with emulate(state, *pools, "--kueue") as emulator:
        yield emulator
        emulator.process.send_signal(signal.SIGINT)
        assert emulator.process.wait() == 0
    assert processes_of(state) == []
