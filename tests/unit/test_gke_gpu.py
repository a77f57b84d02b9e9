"""What Google and Kubernetes are told of a stack of target gke-gpu, by rule, and one sentence for what cannot be."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
import yaml

from infra.gke.cluster_inputs import cluster_inputs, system_pool_inputs
from infra.gke.data_networks import mtu_problem
from infra.gke.doctor import needs
from infra.gke.settings import POOL_LABEL
from infra.hardware import Accelerator, rows
from infra.paths import STACKS
from infra.pods import job_set_release
from infra.pods.job_set import CONTAINER
from infra.preview.stack_plan import decide
from infra.rules.guardrails import Declared, problems
from infra.stack_file.settings import SettingsError, check
from infra.targets.gke_gpu.declare import data_networks, gpu_cluster_args
from infra.targets.gke_gpu.gpu_pools import gpu_pools
from infra.targets.gke_gpu.node_objects import node_objects
from infra.targets.gke_gpu.settings import GkeGpuSettings

TWO = "gke-a3-mega-2"
FLEX: dict[str, Any] = {"tier": "flex-start", "max_runtime": "24h"}
RESERVED: dict[str, Any] = {"tier": "reserved", "reservation": "ours"}
SHARED = [f"ours-{index}/{'eu-west'}" for index in range(8)]
NETWORK, SUBNET = "gcp:compute/network:Network", "gcp:compute/subnetwork:Subnetwork"
FIREWALL, POOL, CLUSTER = (
    "gcp:compute/firewall:Firewall",
    "gcp:container/nodePool:NodePool",
    "gcp:container/cluster:Cluster",
)


def made(stack: str = TWO, name: str = "", **changes: Any) -> GkeGpuSettings:
    """A shipped stack, as it would be with these changes, under another name if one is given."""
    config: dict[str, Any] = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in config.items()} | changes
    found = check(name or stack, {key: value for key, value in values.items() if value is not None})
    assert isinstance(found, GkeGpuSettings)
    return found


def pool(settings: GkeGpuSettings) -> dict[str, Any]:
    (found,) = gpu_pools(settings, data_networks(settings))
    assert found.policy is None
    return found.inputs


def job_set(settings: GkeGpuSettings) -> dict[str, Any]:
    training = gpu_cluster_args(decide(settings)).training
    assert training
    return training.manifests[-1]


def template(settings: GkeGpuSettings) -> dict[str, Any]:
    (job,) = job_set(settings)["spec"]["replicatedJobs"]
    return job["template"]["spec"]["template"]


# --- networks ---


def test_each_of_the_eight_cards_has_a_network_whose_packets_are_large() -> None:
    networks = data_networks(made())
    assert len(networks) == 8 == len({each.network for each in networks})
    assert {(each.network_inputs or {})["mtu"] for each in networks} == {8244}
    ranges = [ipaddress.IPv4Network((each.subnet_inputs or {})["ipCidrRange"]) for each in networks]
    assert not [(one, other) for one in ranges for other in ranges if one != other and one.overlaps(other)]
    for each in networks:
        inputs = ((NETWORK, each.network_inputs), (SUBNET, each.subnet_inputs), (FIREWALL, each.firewall_inputs))
        for token, given in inputs:
            assert given and problems(Declared(token, each.word, given), ()) == []
            assert len(given["name"]) <= 63


def test_nodes_reach_each_other_on_every_port_and_nobody_else_does() -> None:
    for each in data_networks(made()):
        firewall, subnet = each.firewall_inputs or {}, each.subnet_inputs or {}
        (source,) = map(ipaddress.IPv4Network, firewall["sourceRanges"])
        assert source.is_private and ipaddress.IPv4Network(subnet["ipCidrRange"]).subnet_of(source)
        assert {one["protocol"] for one in firewall["allows"]} == {"tcp", "udp", "icmp"}


def test_the_cluster_has_nodes_of_several_networks() -> None:
    cluster = cluster_inputs(made())
    assert (cluster["enableMultiNetworking"], cluster["datapathProvider"]) == (True, "ADVANCED_DATAPATH")
    assert cluster["minMasterVersion"] == "1.32.11-gke.1174000"
    assert "DCGM" in cluster["monitoringConfig"]["enableComponents"]
    assert problems(Declared(CLUSTER, "cluster", cluster), ()) == []
    alone = cluster_inputs(made(accelerator="a3-mega-1", name="gke-a3-mega-1"))
    assert not {"enableMultiNetworking", "datapathProvider"} & alone.keys()


def test_networks_that_exist_are_named_and_not_made() -> None:
    settings = made(data_networks=SHARED)
    networks = data_networks(settings)
    assert [each.network_inputs for each in networks] == [None] * 8
    assert networks[3].network_path == "projects/my-project/global/networks/ours-3"
    cards = pool(settings)["networkConfig"]["additionalNodeNetworkConfigs"]
    assert cards[3] == {"network": "ours-3", "subnetwork": "eu-west"}


def test_an_existing_network_of_smaller_packets_is_refused() -> None:
    network = data_networks(made(data_networks=SHARED))[0]
    assert mtu_problem(network, 8244) is None
    assert mtu_problem(network, None) is None
    assert mtu_problem(network, 1460) == (
        "network ours-0 has an MTU of 1460, and GPUs' data go in packets of 8244; name another one in data_networks, "
        "or leave data_networks out, and the stack makes its own"
    )


def test_who_makes_networks_needs_to_be_let() -> None:
    asked = {"compute.networks.create", "compute.subnetworks.create", "compute.firewalls.create"}
    assert asked <= needs(made()).permissions.keys()
    assert not asked & needs(made(data_networks=SHARED)).permissions.keys()


# --- pools ---


@pytest.mark.parametrize(("stack", "hosts"), [(TWO, 2), ("gke-a3-mega-2.spot", 2), ("gke-a3-mega-32", 32)])
def test_a_pool_has_what_google_documents_of_the_machine(stack: str, hosts: int) -> None:
    inputs = pool(made(stack))
    nodes = inputs["nodeConfig"]
    assert (inputs["nodeCount"], inputs["maxPodsPerNode"]) == (hosts, 32)
    assert inputs["placementPolicy"] == {"type": "COMPACT"}
    assert (nodes["machineType"], nodes["imageType"]) == ("a3-megagpu-8g", "COS_CONTAINERD")
    assert nodes["gvnic"] == {"enabled": True}
    assert nodes["ephemeralStorageLocalSsdConfig"] == {"localSsdCount": 16}
    (gpus,) = nodes["guestAccelerators"]
    assert (gpus["type"], gpus["count"]) == ("nvidia-h100-mega-80gb", 8)
    assert gpus["gpuDriverInstallationConfig"] == {"gpuDriverVersion": "LATEST"}
    assert len(inputs["networkConfig"]["additionalNodeNetworkConfigs"]) == 8
    assert inputs["networkConfig"]["enablePrivateNodes"] is True


def test_another_number_of_nodes_is_the_same_pool() -> None:
    small, large = pool(made()), pool(made(accelerator="a3-mega-4"))
    assert small["name"] == large["name"] == "a3-mega-0"
    assert large == small | {"nodeCount": 4}


def test_each_tier_is_what_its_nodes_say() -> None:
    assert pool(made())["nodeConfig"]["hostMaintenancePolicy"] == {"maintenanceInterval": "PERIODIC"}
    spot = pool(made("gke-a3-mega-2.spot"))["nodeConfig"]
    assert spot["spot"] is True and "hostMaintenancePolicy" not in spot
    flex = pool(made(max_usd_per_hour=None, **FLEX))
    assert "placementPolicy" not in flex, "flex-start takes no compact placement of A3 Mega"
    assert flex["autoscaling"]["maxNodeCount"] == 2
    affinity = pool(made(**RESERVED))["nodeConfig"]["reservationAffinity"]
    assert affinity["values"] == ["ours"]


@pytest.mark.parametrize("row", [row for row in rows("gke") if row.platform == "gpu"], ids=lambda row: row.name)
def test_no_size_in_any_tier_breaks_a_rule(row: Accelerator) -> None:
    for tier in ({}, {"tier": "spot"}, FLEX, RESERVED):
        alone = row.hosts == 1 or row.gpu_network
        plain: dict[str, Any] = {} if alone else {"gpu_network": "none", "allow_sockets": True}
        settings = made(accelerator=row.name, zones=[row.zones[0]], name=f"gke-{row.name}", **plain, **tier)
        assert problems(Declared(POOL, "slice-0", pool(settings)), ()) == []
    assert problems(Declared(POOL, "system", system_pool_inputs(made())), ()) == []


# --- what Kubernetes is told ---


def test_pods_ask_for_all_gpus_of_a_node_and_for_its_eight_cards() -> None:
    pods = template(made())
    (container,) = pods["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    of_kind = {"cloud.google.com/gke-accelerator": "nvidia-h100-mega-80gb"}
    assert pods["spec"]["nodeSelector"] == of_kind | {POOL_LABEL: "a3-mega-0"}
    several = made(name="gke-a3-mega-2x2", slices=2, max_usd_per_hour=None)
    assert template(several)["spec"]["nodeSelector"] == of_kind, "JobSet gives each slice a pool of its own"
    annotations = pods["metadata"]["annotations"]
    interfaces = json.loads(annotations["networking.gke.io/interfaces"])
    assert interfaces[0] == {"interfaceName": "eth0", "network": "default"}
    assert interfaces[1:] == [{"interfaceName": f"eth{index}", "network": f"vpc{index}"} for index in range(1, 9)]
    assert annotations["networking.gke.io/default-interface"] == "eth0"


def test_the_daemon_starts_before_training_ends_after_it_and_is_not_privileged() -> None:
    pods = template(made())
    (daemon,) = pods["spec"]["initContainers"]
    assert (daemon["name"], daemon["restartPolicy"]) == ("tcpxo-daemon", "Always")
    assert daemon["image"].endswith("/tcpgpudmarxd-dev:v1.0.21")
    assert daemon["securityContext"]["capabilities"] == {"add": ["NET_ADMIN", "NET_BIND_SERVICE"]}
    assert "privileged" not in daemon["securityContext"]
    devices = yaml.safe_load(pods["metadata"]["annotations"]["devices.gke.io/container.tcpxo-daemon"])
    assert [each["path"] for each in devices][:8] == [f"/dev/nvidia{index}" for index in range(8)]
    (training,) = pods["spec"]["containers"]
    assert training["name"] == CONTAINER
    assert training["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    volumes = {each["name"] for each in pods["spec"]["volumes"]}
    for container in (daemon, training):
        assert {each["name"] for each in container["volumeMounts"]} <= volumes


def test_what_training_is_told_is_where_the_pod_has_it() -> None:
    """Each path of the environment is mounted, and each card is one of the pod's interfaces."""
    pods = template(made())
    (training,) = pods["spec"]["containers"]
    said = {one["name"]: one.get("value", "") for one in training["env"]}
    mounted = {each["mountPath"] for each in training["volumeMounts"]}
    assert {said["LD_LIBRARY_PATH"], said["NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY"]} <= mounted
    interfaces = json.loads(pods["metadata"]["annotations"]["networking.gke.io/interfaces"])
    names = [each["interfaceName"] for each in interfaces]
    assert [said["NCCL_FASTRAK_CTRL_DEV"], *said["NCCL_FASTRAK_IFNAME"].split(",")] == names


def test_networks_of_the_cluster_are_those_of_the_cards() -> None:
    settings = made()
    objects = node_objects(settings, data_networks(settings))
    parameters = [each for each in objects if each["kind"] == "GKENetworkParamSet"]
    networks = [each for each in objects if each["kind"] == "Network"]
    assert [each["spec"]["vpc"] for each in parameters] == [each.network for each in data_networks(settings)]
    assert {each["spec"]["deviceMode"] for each in parameters} == {"NetDevice"}
    assert [each["spec"]["parametersRef"]["name"] for each in networks] == [f"vpc{index}" for index in range(1, 9)]
    assert {each["metadata"]["labels"]["slipway-stack"] for each in objects} == {TWO}


def test_what_runs_on_each_node_is_of_pinned_versions_that_nodes_without_internet_reach() -> None:
    settings = made()
    daemons = [each for each in node_objects(settings, data_networks(settings)) if each["kind"] == "DaemonSet"]
    assert [each["metadata"]["name"] for each in daemons] == ["device-injector", "nccl-tcpxo-installer"]
    containers = [
        container
        for each in daemons
        for container in (
            *each["spec"]["template"]["spec"].get("initContainers", ()),
            *each["spec"]["template"]["spec"]["containers"],
        )
    ]
    images = {container["name"]: container["image"] for container in containers}
    assert images["nccl-tcpxo-installer"].endswith("/nccl-plugin-gpudirecttcpx-dev:v1.0.15")
    assert images["pre-installation"] == "us-central1-docker.pkg.dev/my-project/slipway-mirror/library/ubuntu"
    assert "@sha256:" in images["device-injector"]


def test_jobset_comes_into_a_new_cluster_unless_pods_need_none() -> None:
    training = gpu_cluster_args(decide(made())).training
    assert training and training.job_set and training.job_set.version == job_set_release.VERSION
    without = gpu_cluster_args(decide(made(job_kind="job"))).training
    assert without and without.job_set is None


def test_a_single_host_needs_no_network_and_no_daemon() -> None:
    settings = made(accelerator="a3-mega-1", name="gke-a3-mega-1")
    args = gpu_cluster_args(decide(settings))
    assert (args.networks, args.node_objects) == ([], [])
    assert "initContainers" not in template(settings)["spec"]
    assert "placementPolicy" not in pool(settings)
    assert "NCCL_FASTRAK_IFNAME" not in settings.group.environment


# --- what cannot be ---


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"accelerator": "v6e-32", "zones": ["us-east5-b"]}, "has no GPUs, and target gke-gpu makes pools of GPUs al"),
        ({"accelerator": "h100-2"}, "accelerator 'h100-2' is not offered as nodes of GKE"),
        ({"zones": ["us-east1-b"]}, "zones has 'us-east1-b'"),
        ({"accelerator": "a3-high-2", "gpu_network": "tcpxo"}, "gpu_network is 'tcpxo' in stacks/Pulumi.gke-a3-mega-2"),
        ({"accelerator": "a3-high-2"}, "accelerator 'a3-high-2' is 2 hosts, and infra/pods/gpu_networks.yaml has no"),
        ({"cluster_version": "1.32.4-gke.1767000"}, "but a3-mega needs GKE 1.32.11-gke.1174000 or newer"),
        ({"data_networks": SHARED[:7]}, "data_networks has 7 networks in stacks/Pulumi.gke-a3-mega-2.yaml, but a a3-m"),
        ({"data_networks": [SHARED[0]] * 8}, "data_networks has 1 networks"),
        ({"data_networks": ["ours"] * 8}, "no network and subnet; write <network>/<subnet>"),
        ({"accelerator": "a3-mega-1", "data_networks": SHARED}, "has 0 network cards for data here"),
        ({"run_as": 1000}, "run_as is 1000 in stacks/Pulumi.gke-a3-mega-2.yaml, but the daemon of GPUDirect-TCPXO"),
    ],
)
def test_what_cannot_be_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        made(**changes)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def with_mesh(**axes: int) -> GkeGpuSettings:
    config: dict[str, Any] = yaml.safe_load((STACKS / f"Pulumi.{TWO}.yaml").read_text())["config"]
    return made(training=config["slipway:training"] | {f"ici_{axis}_parallelism": size for axis, size in axes.items()})


@pytest.mark.parametrize("axes", [{"tensor": 16}, {"tensor": 8, "tensor_sequence": 2}])
def test_tensor_parallelism_that_crosses_hosts_is_refused_with_what_it_costs(axes: dict[str, int]) -> None:
    with pytest.raises(SettingsError) as refused:
        decide(with_mesh(**axes))
    said = str(refused.value)
    assert "crosses hosts of 8 GPUs in stacks/Pulumi.gke-a3-mega-2.yaml" in said
    assert "each GPU would have 28 GB/s of the network for it, where NVLink has 900, so these exch" in said
    assert "take 32 times as long; make it a divisor of 8" in said


@pytest.mark.parametrize("axes", [{"tensor": 8, "fsdp": 2}, {"tensor": 2, "fsdp": 8}, {"fsdp": 16}])
def test_a_mesh_whose_tensor_axes_stay_in_a_host_is_taken(axes: dict[str, int]) -> None:
    assert decide(with_mesh(**axes)).notices


@pytest.mark.parametrize(
    ("stack", "lines"),
    [
        (TWO, ("16 chips = 1 slice x 2 hosts x 8", "NVIDIA_H100_MEGA_GPUS: 16 chips in us-central1", "8 networks for")),
        ("gke-a3-mega-2.spot", ("tier    spot", "PREEMPTIBLE_NVIDIA_H100_MEGA_GPUS: 16 chips")),
        ("gke-a3-mega-32", ("256 chips = 1 slice x 32 hosts x 8", "$2,950.72", "NCCL's plugin v1.0.15; a train")),
    ],
)
def test_a_preview_says_size_price_quota_and_what_is_between_hosts(stack: str, lines: tuple[str, ...]) -> None:
    said = "\n".join(decide(made(stack)).notices)
    assert [line for line in lines if line not in said] == []
