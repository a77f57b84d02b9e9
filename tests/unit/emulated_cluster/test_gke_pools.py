"""Pools of the Kubernetes Engine API as nodes, and which of them get nodes because pods wait."""

from __future__ import annotations

from typing import Any

import pytest

from infra.emulators.cluster import gke_pools, nodes, waiting_pods
from infra.emulators.cluster.built_programs import Manifest
from infra.emulators.cluster.nodes import NodePool, PoolError

ZONE = "us-east5-b"
V6E_32: dict[str, Any] = {
    "name": "slice",
    "locations": [ZONE],
    "initialNodeCount": 8,
    "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x8"},
    "config": {"machineType": "ct6e-standard-4t"},
}
SYSTEM: dict[str, Any] = {
    "name": "system",
    "locations": [f"us-east5-{letter}" for letter in "abc"],
    "initialNodeCount": 1,
    "config": {"machineType": "n2-highmem-4"},
}


def made(pool: dict[str, Any], **config: Any) -> list[Manifest]:
    return nodes.missing(gke_pools.node_pools("c", pool | {"config": pool["config"] | config}), [])


def test_a_slice_has_its_hosts_with_what_workloads_select_by() -> None:
    every = made(V6E_32)
    assert [each["metadata"]["name"] for each in every] == [f"gke-c-slice-{index}" for index in range(8)]
    labels = every[0]["metadata"]["labels"]
    assert labels["cloud.google.com/gke-tpu-topology"] == "4x8"
    assert labels["cloud.google.com/gke-nodepool"] == "slice"
    assert every[0]["status"]["capacity"]["google.com/tpu"] == "4"


def test_a_pool_of_several_zones_has_its_nodes_in_each() -> None:
    every = made(SYSTEM)
    zones = [each["metadata"]["labels"]["topology.kubernetes.io/zone"] for each in every]
    assert zones == SYSTEM["locations"]
    assert [each["metadata"]["name"] for each in every] == [f"gke-c-system-{letter}-0" for letter in "abc"]
    assert (every[0]["status"]["capacity"]["cpu"], every[0]["status"]["capacity"]["memory"]) == ("4", "32768Mi")


def test_one_host_of_a_slice_has_no_topology_in_its_pool() -> None:
    pool = {**V6E_32, "placementPolicy": {}, "initialNodeCount": 1, "config": {"machineType": "tpu7x-standard-4t"}}
    (node,) = made(pool)
    assert node["metadata"]["labels"]["cloud.google.com/gke-tpu-topology"] == "2x2x1"


def test_tier_labels_and_taints_are_on_the_nodes() -> None:
    taint = {"key": "k", "value": "v", "effect": "NO_EXECUTE"}
    reservation = {"consumeReservationType": "SPECIFIC_RESERVATION", "values": ["projects/p/reservations/r"]}
    pool = V6E_32 | {"queuedProvisioning": {"enabled": True}}
    (first, *_) = made(
        pool, spot=True, flexStart=True, labels={"a": "b"}, taints=[taint], reservationAffinity=reservation
    )
    labels = first["metadata"]["labels"]
    assert labels["cloud.google.com/gke-spot"] == labels["cloud.google.com/gke-flex-start"] == "true"
    assert (labels["a"], labels["cloud.google.com/reservation-name"]) == ("b", "r")
    assert [each["key"] for each in first["spec"]["taints"]] == ["google.com/tpu", "k", "cloud.google.com/gke-queued"]
    assert first["spec"]["taints"][1]["effect"] == "NoExecute"


@pytest.mark.parametrize(
    ("config", "topology", "said"),
    [
        ({"machineType": "ct6e-standard-4t"}, "9x9", "no slice of ct6e-standard-4t with topology '9x9'"),
        ({"machineType": "e2-medium"}, "", "machine type 'e2-medium' does not tell how large it is"),
    ],
)
def test_nodes_of_which_too_little_is_known_are_not_guessed(config: dict[str, Any], topology: str, said: str) -> None:
    with pytest.raises(PoolError, match=said):
        gke_pools.node_pools("c", V6E_32 | {"config": config, "placementPolicy": {"tpuTopology": topology}})


def pod(job: str, name: str = "p", **changes: Any) -> Manifest:
    selector = {"cloud.google.com/gke-tpu-topology": "4x8"}
    spec = {"nodeSelector": selector, "tolerations": [{"key": "google.com/tpu", "operator": "Exists"}]}
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    metadata = {"name": name, "namespace": "default", "labels": {"batch.kubernetes.io/job-name": job}}
    return {"metadata": metadata, "spec": spec | changes.get("spec", {}), "status": changes.get("status", status)}


def empty(*names: str) -> list[NodePool]:
    return [gke_pools.node_pools("c", V6E_32 | {"name": name, "initialNodeCount": 0})[0] for name in names]


def test_each_job_that_waits_gets_a_pool_of_its_own() -> None:
    waiting = [pod("first", "a"), pod("first", "b"), pod("second", "c"), pod("third", "d")]
    assert waiting_pods.pools_for(waiting, empty("one", "two")) == ["one", "two"]
    assert waiting_pods.pools_for(waiting[:2], empty("one", "two")) == ["one"]


@pytest.mark.parametrize(
    "other",
    [
        {"spec": {"tolerations": []}},
        {"spec": {"nodeSelector": {"cloud.google.com/gke-tpu-topology": "4x4"}}},
        {"status": {"conditions": []}},
    ],
    ids=["taint not tolerated", "other topology", "scheduled soon"],
)
def test_a_pod_that_the_pool_would_not_run_gets_it_no_nodes(other: dict[str, Any]) -> None:
    assert waiting_pods.pools_for([pod("first", **other)], empty("one")) == []


def test_only_an_autoscaled_pool_may_grow() -> None:
    assert gke_pools.most_nodes(V6E_32) == 0
    assert gke_pools.most_nodes(V6E_32 | {"autoscaling": {"enabled": True, "maxNodeCount": 8}}) == 8
