"""Who a host is: each row of the table, its errors, and which row wins; the metadata server is a real HTTP server."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from training.hosts import HostError, NotYetError, metadata_reader, who_am_i

_PREFIX = "/computeMetadata/v1/instance/attributes/"


@contextmanager
def metadata_server(attributes: Mapping[str, str], broken: bool = False) -> Iterator[str]:
    """Address of a metadata server with these attributes; like Google's, it refuses a request without the flavor."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            key = self.path.removeprefix(_PREFIX)
            known = self.headers["Metadata-Flavor"] == "Google" and key in attributes
            self.send_response(503 if broken else 200 if known else 404)
            self.end_headers()
            self.wfile.write(attributes.get(key, "").encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def no_metadata(key: str) -> None:
    return None


LOCAL = {"SLIPWAY_HOST_INDEX": "1", "SLIPWAY_HOST_COUNT": "2", "SLIPWAY_COORDINATOR": "127.0.0.1:4000"}
EXPLICIT = {"NNODES": "4", "NODE_RANK": "3", "JAX_COORDINATOR_ADDRESS": "node-0", "JAX_COORDINATOR_PORT": "6002"}
GKE_TPU = {"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "a-0.s,a-1.s,a-2.s,a-3.s"}
MULTISLICE = {"MEGASCALE_NUM_SLICES": "3", "MEGASCALE_SLICE_ID": "1", "MEGASCALE_COORDINATOR_ADDRESS": "s0-0.js:8080"}
JOBSET = {
    "JOBSET_NAME": "js",
    "REPLICATED_JOB_NAME": "slice",
    "JOB_INDEX": "1",
    "JOB_COMPLETION_INDEX": "1",
    "PROCESSES_IN_JOB": "2",
    "JAX_PROCESS_COUNT": "6",
}
CLUSTER = {"cluster": {"workerpool0": ["w0:2222"], "workerpool1": ["w1:2222", "w2:2222"]}, "environment": "cloud"}


def vertex_task(pool: str, index: int) -> dict[str, str]:
    """All that Google's page promises a replica."""
    return {"CLUSTER_SPEC": json.dumps(CLUSTER | {"task": {"type": pool, "index": index}})}


VERTEX = {"CLUSTER_SPEC": json.dumps(CLUSTER), "RANK": "2", "MASTER_ADDR": "w0", "MASTER_PORT": "2222"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (LOCAL, (1, 2, "127.0.0.1:4000")),
        (EXPLICIT, (3, 4, "node-0:6002")),
        (EXPLICIT | {"JAX_COORDINATOR_ADDRESS": "node-0:7000"}, (3, 4, "node-0:7000")),
        (GKE_TPU, (2, 4, "a-0.s:8482")),
        (GKE_TPU | MULTISLICE, (6, 12, "s0-0.js:8482")),
        (JOBSET, (3, 6, "js-slice-0-0.js:6002")),
        (JOBSET | {"JAX_COORDINATOR_ADDRESS": "head.js"}, (3, 6, "head.js:6002")),
        (
            {"JOB_COMPLETION_INDEX": "1", "PROCESSES_IN_JOB": "2", "JAX_COORDINATOR_ADDRESS": "head:99"},
            (1, 2, "head:99"),
        ),
        (VERTEX, (2, 3, "w0:2222")),
        (vertex_task("workerpool0", 0), (0, 3, "w0:2222")),
        (vertex_task("workerpool1", 1), (2, 3, "w0:2222")),
    ],
)
def test_row_of_the_environment(environ: dict[str, str], expected: tuple[int, int, str]) -> None:
    host = who_am_i(environ, no_metadata)
    assert (host.index, host.count, host.coordinator) == expected


def test_gpus_per_node_becomes_the_device_count() -> None:
    assert who_am_i(EXPLICIT | {"GPUS_PER_NODE": "8"}, no_metadata).devices == 8


SINGLE_SLICE = {"agent-worker-number": "1", "worker-network-endpoints": "10.0.0.1,10.0.0.2", "tpu-env": "ZONE: 'z'\n"}
OLD_FORMAT = SINGLE_SLICE | {"worker-network-endpoints": "unknown:unknown:10.0.0.1,unknown:unknown:10.0.0.2"}
TPU_ENV = "NODE_ID: 'n'\n" + "".join(f"{key}: '{value}'\n" for key, value in MULTISLICE.items())


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (SINGLE_SLICE, (1, 2, "10.0.0.1:8482")),
        (OLD_FORMAT, (1, 2, "10.0.0.1:8482")),
        (SINGLE_SLICE | {"tpu-env": TPU_ENV}, (3, 6, "s0-0.js:8482")),
    ],
)
def test_tpu_vm_asks_the_metadata_server(attributes: dict[str, str], expected: tuple[int, int, str]) -> None:
    with metadata_server(attributes) as address:
        host = who_am_i({}, metadata_reader({"GCE_METADATA_HOST": address}))
    assert (host.index, host.count, host.coordinator) == expected


def test_environment_wins_over_the_metadata_server() -> None:
    with metadata_server(SINGLE_SLICE) as address:
        assert who_am_i(LOCAL, metadata_reader({"GCE_METADATA_HOST": address})).coordinator == "127.0.0.1:4000"


class Late(dict[str, str]):
    """Attributes each of which is there when it is asked for the second time."""

    def __init__(self, attributes: Mapping[str, str]) -> None:
        super().__init__(attributes)
        self._asked = set[object]()

    def __contains__(self, key: object) -> bool:
        was_asked = key in self._asked
        self._asked.add(key)
        return was_asked and super().__contains__(key)


def test_attributes_that_come_late_are_waited_for() -> None:
    with metadata_server(Late(SINGLE_SLICE)) as address:
        assert who_am_i({}, metadata_reader({"GCE_METADATA_HOST": address})).count == 2


def test_what_the_metadata_server_does_not_say_yet_is_no_bad_input() -> None:
    """Another start may find it."""
    with metadata_server({}, broken=True) as address, pytest.raises(NotYetError, match=f"{address} answers 503 for"):
        who_am_i({}, metadata_reader({"GCE_METADATA_HOST": address}, patience_s=0))
    with metadata_server({}) as address, pytest.raises(NotYetError, match=f"{address} has no agent-worker-number"):
        who_am_i({}, metadata_reader({"GCE_METADATA_HOST": address}, patience_s=0))
    with metadata_server({}) as address:
        pass
    with pytest.raises(NotYetError, match=f"{address} does not answer for agent-worker-number"):
        who_am_i({}, metadata_reader({"GCE_METADATA_HOST": address}, patience_s=0))


@pytest.mark.parametrize("says", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", None], ids=str)
def test_a_metadata_server_that_breaks_off_or_says_nothing_does_not_answer_yet(says: bytes | None) -> None:
    """None: it takes the request, and no more."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as host:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        timeout_s = 0.01 if says is None else 900
        reader = metadata_reader({"GCE_METADATA_HOST": address}, patience_s=0, timeout_s=timeout_s)
        asked = host.submit(who_am_i, {}, reader)
        connection, _ = server.accept()
        with connection:
            if says is not None:
                connection.recv(65536)
                connection.sendall(says)
                connection.close()
            with pytest.raises(NotYetError, match=f"^tpu-vm: .* {address} does not answer for agent-worker-number"):
                asked.result(timeout=900)


def test_an_attribute_that_is_there_and_empty_comes_late() -> None:
    half = SINGLE_SLICE | {"worker-network-endpoints": ""}
    with metadata_server(half) as address, pytest.raises(NotYetError, match="has an empty worker-network-endpoints"):
        who_am_i({}, metadata_reader({"GCE_METADATA_HOST": address}, patience_s=0))


def test_rows_are_tried_in_a_fixed_order() -> None:
    everything = VERTEX | JOBSET | GKE_TPU | EXPLICIT | LOCAL
    order = [("SLIPWAY_", LOCAL), ("N", EXPLICIT), ("TPU_", GKE_TPU), ("JOB", JOBSET), ("", VERTEX)]
    remaining = dict(everything)
    for _, row in order:
        if row is JOBSET:
            remaining.pop("JAX_COORDINATOR_ADDRESS", None)
        assert who_am_i(remaining, no_metadata) == who_am_i(row, no_metadata)
        remaining = {name: value for name, value in remaining.items() if name not in row}


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"NNODES": "2"}, "explicit: JAX_COORDINATOR_ADDRESS is not set"),
        ({"NNODES": "2", "JAX_COORDINATOR_ADDRESS": "a:1"}, "explicit: NODE_RANK is not set"),
        ({"JAX_COORDINATOR_ADDRESS": "a:1"}, "explicit: NODE_RANK is not set"),
        ({**EXPLICIT, "JAX_COORDINATOR_PORT": ""}, "explicit: JAX_COORDINATOR_PORT is not set"),
        ({**LOCAL, "SLIPWAY_HOST_COUNT": ""}, "local: SLIPWAY_HOST_COUNT is not set"),
        ({**LOCAL, "SLIPWAY_HOST_INDEX": "one"}, "local: SLIPWAY_HOST_INDEX is 'one', expected a whole number"),
        ({**LOCAL, "SLIPWAY_HOST_INDEX": "2"}, "local: host index 2 is outside 0..1 (2 hosts)"),
        ({**LOCAL, "SLIPWAY_HOST_COUNT": "0"}, "local: host count is 0; it starts at 1"),
        ({**LOCAL, "SLIPWAY_COORDINATOR": "nowhere"}, "local: SLIPWAY_COORDINATOR is 'nowhere', expected host:port"),
        ({**GKE_TPU, "TPU_WORKER_ID": "4"}, "gke-tpu: worker 4 is outside 0..3 (4 hosts in the slice)"),
        ({**GKE_TPU, "MEGASCALE_NUM_SLICES": "2"}, "gke-tpu: MEGASCALE_SLICE_ID is not set"),
        ({"JOB_COMPLETION_INDEX": "0"}, "jobset: PROCESSES_IN_JOB is not set"),
        ({**VERTEX, "CLUSTER_SPEC": "{}"}, "vertex: CLUSTER_SPEC is '{}'"),
        ({"RANK": "0"}, "vertex: CLUSTER_SPEC is not set"),
        ({"CLUSTER_SPEC": json.dumps(CLUSTER), "RANK": "0"}, "vertex: MASTER_ADDR is not set"),
        ({"CLUSTER_SPEC": json.dumps(CLUSTER)}, "vertex: CLUSTER_SPEC is '{"),
        ({}, "tpu-vm: no metadata server with agent-worker-number"),
    ],
)
def test_half_set_or_wrong_environment_is_one_sentence(environ: dict[str, str], message: str) -> None:
    with pytest.raises(HostError) as error:
        who_am_i(environ, no_metadata)
    assert message in str(error.value)
