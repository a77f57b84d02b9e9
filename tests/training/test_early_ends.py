"""What a real host leaves in a real server's bucket of a start that ends before its training."""

from __future__ import annotations

import json
import socket
from pathlib import Path

from infra.emulators.object_store import StoreFaultKind
from tests.training.cluster import COMPILED, Cluster, LaunchedHost
from tests.training.emulated_bucket import OUTPUT, EmulatedBucket
from tests.training.tiny import TINY
from training.exit_codes import ExitCode
from training.host_status import Phase
from training.run_objects import HostStart, newest_starts
from training.run_spec import RunSpec


def test_it_is_left_once_with_its_reason_and_again_where_the_bucket_refused_it(tmp_path: Path) -> None:
    spec = RunSpec("test", "run", "cpu", 1, 1, 2, 10, OUTPUT, None, TINY)
    with (
        EmulatedBucket(tmp_path / "buckets", hosts=1) as bucket,
        socket.create_server(("", 0)) as in_use,
    ):
        cluster = Cluster(tmp_path, COMPILED, environ={"SLIPWAY_BUNDLE": "b" * 16}, own_environ=bucket.environ)

        def start() -> LaunchedHost:
            [host] = cluster.start(spec, port=in_use.getsockname()[1])
            assert host.end() == ExitCode.BAD_INPUT, host.log
            return host

        bucket.refuse(StoreFaultKind.DENIED, [0])
        log = start().log.splitlines()
        assert log[0].startswith("slipway: gs://bucket answers 403: the caller does not have storage access")
        assert log[1] == f"slipway: how this start has ended is not kept in {OUTPUT}/run"
        bucket.heal()
        host = start()
        word = bucket.last_word_of(0)
        assert word and (word.phase, word.reason) == (Phase.FAILED, host.status.reason)
        assert str(word.reason).startswith("coordinator port ")
        left = sorted(path.relative_to(bucket.run).as_posix() for path in bucket.run.rglob("*.json"))
        first = HostStart.of(json.loads((bucket.run / newest_starts(left)[0].start).read_text()))
        assert (first.host, first.hosts, first.bundle, first.steps) == (0, 1, "b" * 16, 10)
        assert first.started == word.started
        assert len(start().log.splitlines()) == 1
        assert sorted(path.relative_to(bucket.run).as_posix() for path in bucket.run.rglob("*.json")) == left
