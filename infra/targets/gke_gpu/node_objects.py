"""What Kubernetes is told so that GPU nodes reach each other: networks of their cards, and what runs on each. Pure.

Owns these manifests; GKE has defined the kinds of networks in every cluster with multi-networking. Refuses to own the
daemon beside each training (infra/pods/gpu_networks.yaml).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from infra import names
from infra.gke.data_networks import DataNetwork
from infra.pods import gpu_networks
from infra.pods.pod_group import Manifest
from infra.targets.gke_gpu.settings import GkeGpuSettings

_DAEMONS = Path(__file__).parent / "daemons"
_API_VERSION, _PARAMETERS = "networking.gke.io/v1", "GKENetworkParamSet"


def node_objects(settings: GkeGpuSettings, networks: Sequence[DataNetwork]) -> list[Manifest]:
    """None waits for another: controllers of the cluster find what belongs together."""
    labels = names.labels(settings.owner, settings.stack)
    found = [
        *_networks(networks),
        *(_daemon(settings, name) for name in gpu_networks.daemons(settings.network_of_gpus)),
    ]
    for each in found:
        each["metadata"]["labels"] = labels | each["metadata"].get("labels", {})
    return found


def _networks(networks: Sequence[DataNetwork]) -> Iterator[Manifest]:
    """Pods name them: vpc1 is the network of eth1."""
    for number, each in enumerate(networks, 1):
        name = f"vpc{number}"
        yield {
            "apiVersion": _API_VERSION,
            "kind": _PARAMETERS,
            "metadata": {"name": name},
            "spec": {"vpc": each.network, "vpcSubnet": each.subnet, "deviceMode": "NetDevice"},
        }
        yield {
            "apiVersion": _API_VERSION,
            "kind": "Network",
            "metadata": {"name": name},
            "spec": {
                "type": "Device",
                "parametersRef": {"group": "networking.gke.io", "kind": _PARAMETERS, "name": name},
            },
        }


def _daemon(settings: GkeGpuSettings, name: str) -> Manifest:
    found = cast(Manifest, yaml.safe_load((_DAEMONS / f"{name}.yaml").read_text(encoding="utf-8")))
    pods: dict[str, Any] = found["spec"]["template"]["spec"]
    for container in (*pods.get("initContainers", ()), *pods["containers"]):
        container["image"] = settings.mirrored(container["image"])
    return found
