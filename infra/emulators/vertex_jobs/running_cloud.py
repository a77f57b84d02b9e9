"""An emulated Vertex AI whose jobs run, with the buckets and secrets that their containers ask for.

Owns how containers are told where the cloud's services are: real ones know them by name. They ask for buckets at a
server of their own, which holds each of them to what its account has by the buckets' policies. Refuses to own the
services.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

from infra.emulators.bucket_access import BucketAccess
from infra.emulators.host_services import HostServices
from infra.emulators.object_store import ObjectStore
from infra.emulators.vertex_jobs.replica_processes import ReplicaProcesses


@contextlib.contextmanager
def replicas(store: ObjectStore, directory: Path, port: int = 0) -> Generator[ReplicaProcesses]:
    """Processes with their homes below `directory`, which end with the context. port: of Secret Manager."""
    tokens = dict[str, str]()
    access = BucketAccess(tokens, policies=store.policies)
    with HostServices(tokens, store.policies, port) as services, ObjectStore(store.root, (), access=access) as guarded:
        endpoints = {
            "SLIPWAY_STORAGE_ENDPOINT": guarded.url,
            "SLIPWAY_SECRETS_ENDPOINT": services.url,
            "SLIPWAY_LOGGING_ENDPOINT": services.url,
            "FSSPEC_GCS_ENDPOINT_URL": guarded.url,  # gcsfs; STORAGE_EMULATOR_HOST would have it ask as nobody
            "API_ENDPOINT_OVERRIDE": guarded.url,  # google-cloud-storage
            "TENSORSTORE_GCS_HTTP_URL": guarded.url,
        }
        running = ReplicaProcesses(directory, endpoints, tokens)
        try:
            yield running
        finally:
            running.close()
