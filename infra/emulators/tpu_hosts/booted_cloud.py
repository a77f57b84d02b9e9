"""An emulated cloud whose hosts boot: the TPU API and buckets that somebody serves, with hosts and what these ask of.

Owns how hosts are told where the cloud's services are: real ones know them by name. They ask for buckets at a server of
their own, which holds each of them to what its account has by the buckets' policies. Refuses to own the services.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.emulators.bucket_access import BucketAccess
from infra.emulators.host_services import HostServices
from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import TpuApi
from infra.emulators.tpu_hosts import network
from infra.emulators.tpu_hosts.fleet import Fleet
from infra.emulators.tpu_hosts.view import SharedDirectory


@dataclass(frozen=True)
class BootedCloud:
    fleet: Fleet
    services: HostServices


@contextlib.contextmanager
def boot(
    api: TpuApi,
    store: ObjectStore,
    directory: Path,
    port: int = 0,
    isolated: bool | None = None,
    shared: Sequence[SharedDirectory] = (),
) -> Generator[BootedCloud]:
    """Hosts of emulated accelerators are processes with their disks below `directory`, and end with the context.

    port: of Secret Manager and Cloud Logging. isolated: each in a network of its own; None: where that is permitted.
    shared: directories of this machine that hosts with file systems of their own have at the same path.
    """
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
        isolated = network.permitted() if isolated is None else isolated
        servers = (services, guarded)
        with Fleet(api, directory, endpoints, servers, isolated, tokens, shared) as fleet:
            yield BootedCloud(fleet, services)
