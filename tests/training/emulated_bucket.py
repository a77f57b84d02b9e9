"""A bucket for the hosts of a run, each of which has a server of its own to it: what one answers, one host hears."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from infra.emulators.object_store import ObjectStore, StoreFault, StoreFaultKind
from training.checkpoints import completed_steps

OUTPUT = "gs://bucket/out"
_FOR_EVER = 10**9


class EmulatedBucket:
    """Context manager. The servers share the objects' files below `root`."""

    def __init__(self, root: Path, hosts: int = 2) -> None:
        self.root = root
        self.servers = [ObjectStore(root) for _ in range(hosts)]
        self._serve = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for server in self.servers:
            self._serve.enter_context(server)
        return self

    def __exit__(self, *raised: object) -> None:
        self._serve.close()

    @property
    def environ(self) -> list[dict[str, str]]:
        """Of each host: where its three clients find the bucket, and that they need no account."""
        return [
            {
                "STORAGE_EMULATOR_HOST": server.url,  # gcsfs, google-cloud-storage
                "TENSORSTORE_GCS_HTTP_URL": server.url,
                "GOOGLE_AUTH_TOKEN_FOR_TESTING": "none",  # TensorStore
                "NO_GCE_CHECK": "true",  # gcsfs
            }
            for server in self.servers
        ]

    def refuse(self, kind: StoreFaultKind, hosts: Sequence[int]) -> list[StoreFault]:
        """Every call of these hosts, until `heal`."""
        return [self.servers[host].fail(kind, times=_FOR_EVER) for host in hosts]

    def heal(self) -> None:
        for server in self.servers:
            with server.lock:
                for fault in server.faults:
                    fault.times = 0
                    fault.release.set()

    @property
    def checkpoints(self) -> Path:
        """Of the run `run`, as files."""
        return self.root / "bucket" / "out" / "run" / "checkpoints"

    def completed(self) -> int:
        """Steps in the newest checkpoint, by the files."""
        return completed_steps(self.checkpoints, remote=True)
