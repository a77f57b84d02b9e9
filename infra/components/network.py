"""A network without external addresses: hosts reach each other and Google, people reach hosts through IAP."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components import compute
from infra.names import Names

# https://cloud.google.com/iap/docs/using-tcp-forwarding: where IAP's connections come from
IAP_RANGE = "35.235.240.0/20"
MTU = 8896  # the largest; slices talk to each other over this network


@dataclass(frozen=True)
class NetworkArgs:
    names: Names
    subnet_cidr: str
    nat: bool


class Network(pulumi.ComponentResource):
    """account_email: the hosts' account; only who acts as it is talked to."""

    def __init__(
        self,
        name: str,
        args: NetworkArgs,
        account_email: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("slipway:foundation:Network", name, None, opts)
        names, child = args.names, pulumi.ResourceOptions(parent=self)
        network = compute.Network(
            "network",
            {
                "name": names.network,
                "project": names.project,
                "autoCreateSubnetworks": False,
                "routingMode": "REGIONAL",
                "mtu": MTU,
            },
            child,
        )
        subnet = compute.Subnetwork(
            "subnet",
            {
                "name": names.subnet,
                "project": names.project,
                "region": names.region,
                "network": network.id,
                "ipCidrRange": args.subnet_cidr,
                "privateIpGoogleAccess": True,
            },
            child,
        )
        ours = {"project": names.project, "network": network.id, "targetServiceAccounts": [account_email]}
        compute.Firewall(
            "between-hosts",
            {
                **ours,
                "name": names.firewall_hosts,
                "description": "Hosts of one account reach each other on every TCP port",
                "direction": "INGRESS",
                "sourceServiceAccounts": [account_email],
                "allows": [{"protocol": "tcp"}],
            },
            child,
        )
        compute.Firewall(
            "ssh-through-iap",
            {
                **ours,
                "name": names.firewall_ssh,
                "description": "SSH, only through Identity-Aware Proxy",
                "direction": "INGRESS",
                "sourceRanges": [IAP_RANGE],
                "allows": [{"protocol": "tcp", "ports": ["22"]}],
            },
            child,
        )
        if args.nat:
            _nat(names, network, subnet, child)
        self.register_outputs({"network": network.id, "subnet": subnet.id})


def _nat(names: Names, network: compute.Network, subnet: compute.Subnetwork, child: pulumi.ResourceOptions) -> None:
    place = {"project": names.project, "region": names.region}
    router = compute.Router("router", {**place, "name": names.router, "network": network.id}, child)
    compute.RouterNat(
        "nat",
        {
            **place,
            "name": names.nat,
            "router": names.router,
            "natIpAllocateOption": "AUTO_ONLY",
            "sourceSubnetworkIpRangesToNat": "LIST_OF_SUBNETWORKS",
            "subnetworks": [{"name": subnet.id, "sourceIpRangesToNats": ["ALL_IP_RANGES"]}],
            "logConfig": {"enable": True, "filter": "ERRORS_ONLY"},
        },
        pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[router])),
    )
