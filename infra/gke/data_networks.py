"""Networks of a node's further cards, as Google's plugin is told of them. Pure.

Owns a network, its subnet in the stack's region and who gets in, for each card; or which ones exist already. Refuses to
own the network of cluster and pods, which is the foundation's.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.gke.cluster_inputs import Inputs
from infra.gke.settings import GkeSettings

_WITHIN = "192.168.0.0/16"  # all of them, as Google's own examples have it; they do not lead to each other
_ALL_PORTS = "0-65535"


@dataclass(frozen=True)
class DataNetwork:
    """network, subnet: names. network_path: by which an existing one is read; there are no inputs then."""

    word: str
    network: str
    subnet: str
    mtu: int
    network_path: str = ""
    network_inputs: Inputs | None = None
    subnet_inputs: Inputs | None = None
    firewall_inputs: Inputs | None = None


def made_networks(settings: GkeSettings, mtu: int) -> list[DataNetwork]:
    """One for each card, called after the cluster."""
    return [_made(settings, index, mtu) for index in range(settings.data_cards)]


def existing_networks(settings: GkeSettings, named: tuple[str, ...], mtu: int) -> list[DataNetwork]:
    """named: each as <network>/<subnet>, of the project and the stack's region."""
    pairs = [each.partition("/") for each in named]
    return [
        DataNetwork(f"data-{index}", network, subnet, mtu, f"projects/{settings.project}/global/networks/{network}")
        for index, (network, _, subnet) in enumerate(pairs)
    ]


def _made(settings: GkeSettings, index: int, mtu: int) -> DataNetwork:
    name = f"{settings.cluster_name}-data-{index}"
    project = {"project": settings.project}
    return DataNetwork(
        f"data-{index}",
        name,
        name,
        mtu,
        network_inputs=project | {"name": name, "autoCreateSubnetworks": False, "mtu": mtu},
        subnet_inputs=project
        | {"name": name, "region": settings.place, "ipCidrRange": f"192.168.{16 * index}.0/20"},  # 4,092 nodes
        firewall_inputs=project
        | {
            "name": name,
            "description": "Nodes reach each other on every port",
            "direction": "INGRESS",
            "sourceRanges": [_WITHIN],
            "allows": [
                {"protocol": "tcp", "ports": [_ALL_PORTS]},
                {"protocol": "udp", "ports": [_ALL_PORTS]},
                {"protocol": "icmp"},
            ],
        },
    )


def mtu_problem(network: DataNetwork, mtu: object) -> str | None:
    """mtu: of a network that exists. One sentence where it is of another size; one that is not known yet passes."""
    if not isinstance(mtu, int | float) or int(mtu) == network.mtu:
        return None
    return (
        f"network {network.network} has an MTU of {int(mtu)}, and GPUs' data go in packets of {network.mtu}; name "
        f"another one in data_networks, or leave data_networks out, and the stack makes its own"
    )
