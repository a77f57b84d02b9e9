"""A bucket for the hosts of a run, each of which has a server of its own to it: what one answers, one host hears.

Hosts have an account, as Google VMs have by their metadata server, and on the bucket the roles that a foundation gives.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from infra.emulators.bucket_access import BucketAccess
from infra.emulators.metadata_server import EMAIL, TOKEN, MetadataServer
from infra.emulators.object_store import ObjectStore, StoreFault, StoreFaultKind
from training import run_objects
from training.checkpoints import completed_steps
from training.host_status import HostStatus, of

OUTPUT = "gs://bucket/out"
ROLES = frozenset(("roles/storage.objectUser", "roles/storage.legacyBucketReader"))
_FOR_EVER = 10**9


class EmulatedBucket:
    """Context manager. The servers share the objects' files below `root`."""

    def __init__(self, root: Path, hosts: int = 2) -> None:
        self.root = root
        self.access = [BucketAccess({TOKEN: EMAIL}, {"bucket": {EMAIL: ROLES}}) for _ in range(hosts)]
        self.servers = [ObjectStore(root, access=access) for access in self.access]
        self._metadata = MetadataServer()
        self._serve = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for server in (self._metadata, *self.servers):
            self._serve.enter_context(server)
        return self

    def __exit__(self, *raised: object) -> None:
        self._serve.close()

    @property
    def environ(self) -> list[dict[str, str]]:
        """Of each host: where its three clients find the bucket, and the account with which they ask."""
        account = {
            "GCE_METADATA_HOST": self._metadata.host,  # gcsfs, google-cloud-storage
            "GCE_METADATA_IP": self._metadata.host,
            "GCE_METADATA_ROOT": self._metadata.host,  # TensorStore
            "CLOUDSDK_CONFIG": str(self.root),  # none of whoever runs the tests
        }
        return [
            account
            | {
                "FSSPEC_GCS_ENDPOINT_URL": server.url,  # STORAGE_EMULATOR_HOST would have clients that ask as nobody
                "API_ENDPOINT_OVERRIDE": server.url,  # google-cloud-storage
                "TENSORSTORE_GCS_HTTP_URL": server.url,
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
    def run(self) -> Path:
        """The run `run`, as files."""
        return self.root / "bucket" / "out" / "run"

    @property
    def checkpoints(self) -> Path:
        return self.run / "checkpoints"

    def lines_kept_of(self, host: int) -> list[dict[str, Any]]:
        """Of the host's record of steps, as an object store lists its chunks."""
        chunks = self.run / run_objects.chunks_of(host)
        names = run_objects.chunks_in_order(path.name for path in chunks.glob("*"))
        return [json.loads(line) for name in names for line in (chunks / name).read_text().splitlines()]

    def last_word_of(self, host: int) -> HostStatus | None:
        """Of its newest start; None where that has none, or there is no start."""
        keys = [path.relative_to(self.run).as_posix() for path in self.run.glob("hosts/*/*")]
        start = run_objects.newest_starts(keys).get(host)
        return of(json.loads((self.run / start.end).read_text())) if start and start.end else None

    def completed(self) -> int:
        """Steps in the newest checkpoint, by the files."""
        return completed_steps(self.checkpoints, remote=True)
