"""Nodes of an emulated cluster: what GKE gives to each, from the hardware table."""

from __future__ import annotations

import pytest

from infra.emulators.cluster import nodes
from infra.emulators.cluster.nodes import NodePool, PoolError
from infra.hardware import UnknownAcceleratorError, find


def pool(size: str, **changes: object) -> NodePool:
    return NodePool(**{"name": f"{size}-0", "accelerator": find(size), "zone": "us-east5-b"} | changes)  # type: ignore[arg-type]


def test_a_slice_has_a_node_for_each_host() -> None:
    made = nodes.missing([pool("v6e-32")], [])
    assert [node["metadata"]["name"] for node in made] == [f"gke-slipway-v6e-32-0-{index}" for index in range(8)]
    assert {node["status"]["allocatable"]["google.com/tpu"] for node in made} == {"4"}


def test_the_labels_of_a_tpu_are_those_that_workloads_select_by() -> None:
    assert nodes.labels(pool("v6e-32")) == {
        "cloud.google.com/gke-nodepool": "v6e-32-0",
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "4x8",
        "cloud.google.com/machine-family": "ct6e",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "ct6e-standard-4t",
        "topology.kubernetes.io/region": "us-east5",
        "topology.kubernetes.io/zone": "us-east5-b",
    }


def test_only_a_spot_pool_says_spot() -> None:
    assert "cloud.google.com/gke-spot" not in nodes.labels(pool("v6e-8"))
    assert nodes.labels(pool("v6e-8", spot=True))["cloud.google.com/gke-spot"] == "true"


def test_only_accelerators_are_tainted() -> None:
    present = {"value": "present", "effect": "NoSchedule"}
    assert nodes.taints(pool("v5e-16")) == [{"key": "google.com/tpu", **present}]
    assert nodes.taints(pool("a3-mega-2")) == [{"key": "nvidia.com/gpu", **present}]
    assert nodes.taints(NodePool("default-pool", None, "us-east5-b")) == []


def test_a_gpu_node_says_its_kind_and_has_its_chips() -> None:
    (node, _) = nodes.missing([pool("a3-mega-2")], [])
    assert node["metadata"]["labels"]["cloud.google.com/gke-accelerator"] == "nvidia-h100-mega-80gb"
    assert node["status"]["capacity"]["nvidia.com/gpu"] == "8"


def test_a_pool_of_each_size_and_one_for_the_system() -> None:
    made = nodes.pools(["v6e-32", "v5e-16", "v6e-32"])
    assert [each.name for each in made] == ["default-pool", "v6e-32-0", "v5e-16-0", "v6e-32-1"]
    assert [each.nodes for each in made] == [1, 8, 4, 8]
    assert {each.zone for each in nodes.pools(["v6e-32", "v5e-16"], "europe-west4-a")} == {"europe-west4-a"}


@pytest.mark.parametrize(
    ("size", "error", "says"),
    [
        ("v6e-33", UnknownAcceleratorError, "nearest: v6e-32, v6e-16"),
        ("cpu-8", PoolError, "accelerator 'cpu-8' is not to be had on GKE"),
        ("tpu7x-2", PoolError, "does not say how many vCPUs"),
    ],
)
def test_what_gke_has_not_or_nobody_knows_is_refused(size: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        nodes.pools([size])


def test_no_two_nodes_have_one_address() -> None:
    large = NodePool("all", find("tpu7x-18432"), "us-central1-c")
    there = nodes.missing([pool("v6e-32"), large], [])
    addresses = {node["status"]["addresses"][0]["address"] for node in there}
    assert len(addresses) == 8 + 2304
    assert "10.128.9.8" in addresses


def test_a_node_that_is_gone_comes_back_and_takes_nobodys_address() -> None:
    there = nodes.missing([pool("v6e-32")], [])
    left = [node for node in there if node["metadata"]["name"] != "gke-slipway-v6e-32-0-2"]
    (back,) = nodes.missing([pool("v6e-32")], left)
    assert back["metadata"]["name"] == "gke-slipway-v6e-32-0-2"
    assert back["status"]["addresses"][0] not in [node["status"]["addresses"][0] for node in left]


def test_a_node_is_ready_when_it_says_so() -> None:
    new, lost, ready = nodes.missing([pool("v6e-16")], [])[:3]
    for node, status in ((lost, "Unknown"), (ready, "True")):
        node["status"]["conditions"] = [
            {"type": "MemoryPressure", "status": "True"},
            {"type": "Ready", "status": status},
        ]
    assert nodes.not_ready([new, lost, ready]) == ["gke-slipway-v6e-16-0-0", "gke-slipway-v6e-16-0-1"]


def test_what_gke_keeps_for_itself() -> None:
    """Of 4 vCPUs and 16 GiB, and of a host of a TPU slice."""
    assert nodes.reserved_millicpus(4) == 80
    assert nodes.reserved_mib(16 * 1024) == 2662 + 100
    allocatable = nodes.missing([pool("v6e-32")], [])[0]["status"]["allocatable"]
    assert allocatable["cpu"] == f"{180_000 - 80 - 440}m"
    assert allocatable["memory"] == f"{720 * 1024 - nodes.reserved_mib(720 * 1024)}Mi"
