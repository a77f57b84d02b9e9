"""Who am I: this host's rank, the host count and the coordinator, from where each target says it.

The only module that reads the environment. Owns one table of targets, its precedence and the rule that a half-set row
is an error: MaxText trains N separate runs and exits 0 when it cannot read these variables. Refuses to own whether the
answer fits the run spec (training/launch.py).
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

type Environment = Mapping[str, str]
type Metadata = Callable[[str], str | None]

TPU_PORT = 8482  # jax/_src/clusters/cloud_tpu_cluster.py
JOBSET_PORT = 6002  # xpk's JobSets


class HostError(ValueError):
    """The environment does not say who this host is; the message names the variable."""


class NotYetError(HostError):
    """It does not say so yet: a platform may set its attributes after the host has booted."""


@dataclass(frozen=True)
class Host:
    """`index` counts over all slices, from 0; host 0 is the coordinator. `devices` is None where nobody says it."""

    index: int
    count: int
    coordinator: str  # host:port
    said_by: str
    devices: int | None = None


@dataclass(frozen=True)
class HostKind:
    """One row: any of `claims` in the environment selects it; `read` then needs what it needs."""

    name: str
    claims: tuple[str, ...]
    read: Callable[[Environment, Metadata], Host]


def environment() -> dict[str, str]:
    """A copy of this process's environment."""
    return dict(os.environ)


def who_am_i(environ: Environment, metadata: Metadata) -> Host:
    """This host, by the first row of TARGETS that claims the environment, else by the TPU VM's metadata server."""
    target = next((row for row in TARGETS if any(name in environ for name in row.claims)), _LAST_RESORT)
    try:
        host = target.read(environ, metadata)
    except HostError as error:
        raise type(error)(f"{target.name}: {error}") from None
    if host.count < 1:
        raise HostError(f"{target.name}: host count is {host.count}; it starts at 1")
    if not 0 <= host.index < host.count:
        raise HostError(f"{target.name}: host index {host.index} is outside 0..{host.count - 1} ({host.count} hosts)")
    return host


def _local(environ: Environment, metadata: Metadata) -> Host:
    return Host(
        _integer(environ, "SLIPWAY_HOST_INDEX"),
        _integer(environ, "SLIPWAY_HOST_COUNT"),
        _address(_text(environ, "SLIPWAY_COORDINATOR"), None, "SLIPWAY_COORDINATOR"),
        "SLIPWAY_HOST_INDEX",
    )


def _explicit(environ: Environment, metadata: Metadata) -> Host:
    address = _text(environ, "JAX_COORDINATOR_ADDRESS")
    port = None if ":" in address else _integer(environ, "JAX_COORDINATOR_PORT")
    return Host(
        _integer(environ, "NODE_RANK"),
        _integer(environ, "NNODES"),
        _address(address, port, "JAX_COORDINATOR_ADDRESS"),
        "NODE_RANK",
        _integer(environ, "GPUS_PER_NODE") if "GPUS_PER_NODE" in environ else None,
    )


def _gke_tpu(environ: Environment, metadata: Metadata) -> Host:
    hosts = _text(environ, "TPU_WORKER_HOSTNAMES").split(",")
    return _tpu(environ, hosts, _integer(environ, "TPU_WORKER_ID"), "TPU_WORKER_ID")


def _gce_tpu(environ: Environment, metadata: Metadata) -> Host:
    worker = metadata("agent-worker-number")
    if worker is None:
        rows = "; ".join(f"{row.name}: {', '.join(row.claims)}" for row in TARGETS)
        raise HostError(f"no metadata server with agent-worker-number, and no other target's variables ({rows})")
    endpoints = metadata("worker-network-endpoints") or ""
    slices = _tpu_env(metadata("tpu-env") or "") | dict(environ)
    hosts = [_endpoint(entry) for entry in endpoints.split(",")]
    return _tpu(slices, hosts, _integer({"agent-worker-number": worker}, "agent-worker-number"), "the metadata server")


def _jobset(environ: Environment, metadata: Metadata) -> Host:
    """One JobSet job per slice; PROCESSES_IN_JOB pods in each, JAX_PROCESS_COUNT pods in all."""
    per_job = _integer(environ, "PROCESSES_IN_JOB")
    index = _integer({"JOB_INDEX": "0", **environ}, "JOB_INDEX") * per_job + _integer(environ, "JOB_COMPLETION_INDEX")
    count = _integer({"JAX_PROCESS_COUNT": str(per_job), **environ}, "JAX_PROCESS_COUNT")
    if "JAX_COORDINATOR_ADDRESS" in environ:
        address = environ["JAX_COORDINATOR_ADDRESS"]
    else:
        jobset = _text(environ, "JOBSET_NAME")
        address = f"{jobset}-{_text(environ, 'REPLICATED_JOB_NAME')}-0-0.{jobset}"
    return Host(index, count, _address(address, JOBSET_PORT, "JAX_COORDINATOR_ADDRESS"), "JOB_COMPLETION_INDEX")


def _vertex(environ: Environment, metadata: Metadata) -> Host:
    """Google's page promises CLUSTER_SPEC alone, whose task is this replica; scripts of users read the others."""
    try:
        said = json.loads(_text(environ, "CLUSTER_SPEC"))
        pools: Mapping[str, list[str]] = said["cluster"]
        count = sum(len(hosts) for hosts in pools.values())
        if not {"RANK", "MASTER_ADDR", "MASTER_PORT"} & environ.keys():
            return _by_task(pools, count, str(said["task"]["type"]), int(said["task"]["index"]))
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise HostError(
            f"CLUSTER_SPEC is {environ['CLUSTER_SPEC'][:80]!r}; expected JSON with cluster.<pool>: [hosts]"
        ) from None
    address, port = _text(environ, "MASTER_ADDR"), _integer(environ, "MASTER_PORT")
    return Host(_integer(environ, "RANK"), count, _address(address, port, "MASTER_ADDR"), "RANK")


def _by_task(pools: Mapping[str, list[str]], count: int, pool: str, index: int) -> Host:
    """The first pool is the master's, and ranks go on from pool to pool."""
    before = sum(len(pools[name]) for name in sorted(pools) if name < pool)
    return Host(before + index, count, _address(pools[min(pools)][0], None, "CLUSTER_SPEC"), "CLUSTER_SPEC")


# First match wins. What a person or a template sets by hand comes before what a platform sets on every pod.
TARGETS = (
    HostKind("local", ("SLIPWAY_HOST_INDEX", "SLIPWAY_HOST_COUNT", "SLIPWAY_COORDINATOR"), _local),
    HostKind("explicit", ("NODE_RANK", "NNODES"), _explicit),
    HostKind("gke-tpu", ("TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"), _gke_tpu),
    HostKind("jobset", ("JOB_COMPLETION_INDEX",), _jobset),
    HostKind("vertex", ("CLUSTER_SPEC", "RANK", "MASTER_ADDR"), _vertex),
    HostKind("explicit", ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT"), _explicit),  # names what is missing
)
_LAST_RESORT = HostKind("tpu-vm", (), _gce_tpu)


def _tpu(environ: Environment, hosts: list[str], worker: int, said_by: str) -> Host:
    """Rank over all slices. MEGASCALE_*: of queued resources in tpu-env, of JobSets in the environment."""
    slices, slice_id, coordinator = 1, 0, hosts[0]
    if environ.get("MEGASCALE_NUM_SLICES"):
        slices, slice_id = _integer(environ, "MEGASCALE_NUM_SLICES"), _integer(environ, "MEGASCALE_SLICE_ID")
        coordinator = _text(environ, "MEGASCALE_COORDINATOR_ADDRESS").partition(":")[0]
    if not 0 <= worker < len(hosts):
        raise HostError(f"worker {worker} is outside 0..{len(hosts) - 1} ({len(hosts)} hosts in the slice)")
    address = _address(coordinator, TPU_PORT, "the coordinator")
    return Host(slice_id * len(hosts) + worker, slices * len(hosts), address, said_by)


def _endpoint(entry: str) -> str:
    """A worker's address: `address`, or `name:id:address` as older TPU runtimes write it."""
    parts = entry.split(":")
    if len(parts) not in (1, 3):
        raise HostError(f"worker-network-endpoints has {entry!r}; expected an address or name:id:address")
    return parts[-1]


def _tpu_env(text: str) -> dict[str, str]:
    """`KEY: 'value'` lines of the tpu-env attribute."""
    pairs = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip().strip("'\"") for key, _, value in pairs}


def _text(environ: Environment, name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise HostError(f"{name} is not set, but other variables of this row are")
    return value


def _integer(environ: Environment, name: str) -> int:
    value = _text(environ, name)
    try:
        return int(value)
    except ValueError:
        raise HostError(f"{name} is {value!r}, expected a whole number") from None


def _address(address: str, port: int | None, name: str) -> str:
    """host:port; a port in the address wins over `port`."""
    host, colon, own_port = address.partition(":")
    number = _integer({name: own_port}, name) if colon else port
    if not host or number is None or not 0 < number < 65536:
        raise HostError(f"{name} is {address!r}, expected host:port")
    return f"{host}:{number}"


_PATIENCE_S, _PAUSE_S, _TIMEOUT_S = 120.0, 0.5, 5.0
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask_metadata(environ: Environment, path: str, timeout_s: float) -> Any:
    """The open answer of a Google VM's metadata server for a path below `instance/`. Raises OSError.

    GCE_METADATA_HOST names another server, as in Google's own clients. Proxies are not used.
    """
    url = f"http://{_metadata_server(environ)}/computeMetadata/v1/instance/{path}"
    request = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
    return _opener.open(request, timeout=timeout_s)


def _metadata_server(environ: Environment) -> str:
    return environ.get("GCE_METADATA_HOST") or "metadata.google.internal"


def metadata_reader(environ: Environment, patience_s: float = _PATIENCE_S, timeout_s: float = _TIMEOUT_S) -> Metadata:
    """Instance attributes from the metadata server; None where there is none, which is known at once.

    Asks until an attribute is there and says something, for `patience_s`. Raises NotYetError.
    """

    def read(key: str) -> str | None:
        until = time.monotonic() + patience_s
        while True:
            try:
                with ask_metadata(environ, f"attributes/{key}", timeout_s) as response:
                    if text := response.read().decode():
                        return text
                answer = f"has an empty {key}"
            except urllib.error.HTTPError as error:
                answer = f"has no {key}" if error.code == 404 else f"answers {error.code} for {key}"
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, urllib.error.URLError) and isinstance(error.reason, socket.gaierror):
                    return None  # the name is known on Google's machines only
                answer = f"does not answer for {key}"
            if time.monotonic() >= until:
                raise NotYetError(f"the metadata server {_metadata_server(environ)} {answer}")
            time.sleep(_PAUSE_S)

    return read
