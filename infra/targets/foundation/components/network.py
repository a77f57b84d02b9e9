"""A network without external addresses: hosts reach each other and Google, people reach hosts through IAP.

Compute Engine's resources are declared by their type token: reading any class of `pulumi_gcp.compute` costs over a
second at every preview, all other packages of it together 0.2 s. Names of arguments are as on the wire, and the
provider checks them as it does the typed ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.names import Names

# https://cloud.google.com/iap/docs/using-tcp-forwarding: where IAP's connections come from
IAP_RANGE = "35.235.240.0/20"
MTU = 8896  # the largest; slices talk to each other over this network
_TCP = {"protocol": "tcp"}
_SSH = {"protocol": "tcp", "ports": ["22"]}


@dataclass(frozen=True)
class NetworkArgs:
    names: Names
    subnet_cidr: str
    nat: bool


class Network(pulumi.ComponentResource):
    """account_email: the hosts' account. Hosts are let in by it, and by the subnet that they are in."""

    def __init__(
        self,
        name: str,
        args: NetworkArgs,
        account_email: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("slipway:foundation:Network", name, None, opts)
        names, child = args.names, pulumi.ResourceOptions(parent=self)
        network = pulumi.CustomResource(
            "gcp:compute/network:Network",
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
        subnet = pulumi.CustomResource(
            "gcp:compute/subnetwork:Subnetwork",
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
        inward = {"project": names.project, "network": network.id, "direction": "INGRESS"}
        for rule, inputs in _rules(args, account_email).items():
            pulumi.CustomResource("gcp:compute/firewall:Firewall", rule, {**inward, **inputs}, child)
        if args.nat:
            _nat(names, network, subnet, child)
        self.register_outputs({"network": network.id, "subnet": subnet.id})


def _rules(args: NetworkArgs, account_email: pulumi.Input[str]) -> dict[str, pulumi.Inputs]:
    """Every rule for the account has one beside it for whatever is in the network, which hosts alone are.

    Google does not say whether a rule for an account holds for a TPU VM, which is an instance in a project of Google's
    with an interface in this network: its documentation of TPUs names tags alone. One rule may have both sources, but
    not both targets. The rules for the account stay as every foundation has them, since Google's provider cannot take
    the target off a rule (ComputeFirewallUpdate leaves out what is empty).
    """
    names = args.names
    return {
        "between-hosts": {
            "name": names.firewall_hosts,
            "description": "Hosts of one account reach each other on every TCP port",
            "targetServiceAccounts": [account_email],
            "sourceServiceAccounts": [account_email],
            "allows": [_TCP],
        },
        "within-subnet": {
            "name": names.firewall_subnet,
            "description": "Hosts of one subnet reach each other on every TCP port",
            "sourceRanges": [args.subnet_cidr],
            "allows": [_TCP],
        },
        "ssh-through-iap": {
            "name": names.firewall_ssh,
            "description": "SSH, only through Identity-Aware Proxy",
            "targetServiceAccounts": [account_email],
            "sourceRanges": [IAP_RANGE],
            "allows": [_SSH],
        },
        "ssh-to-network-through-iap": {
            "name": names.firewall_network_ssh,
            "description": "SSH to whatever is in the network, only through Identity-Aware Proxy",
            "sourceRanges": [IAP_RANGE],
            "allows": [_SSH],
        },
    }


def _nat(
    names: Names, network: pulumi.CustomResource, subnet: pulumi.CustomResource, child: pulumi.ResourceOptions
) -> None:
    place = {"project": names.project, "region": names.region}
    inputs = {**place, "name": names.router, "network": network.id}
    router = pulumi.CustomResource("gcp:compute/router:Router", "router", inputs, child)
    pulumi.CustomResource(
        "gcp:compute/routerNat:RouterNat",
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
