"""Compute Engine's resources by their type token, one class each.

Reading any class of `pulumi_gcp.compute` costs over a second at every preview, all other packages of it together 0.2 s.
Names of arguments are as on the wire, and the provider checks them as it does the typed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

type Inputs = Mapping[str, pulumi.Input[Any]]


class _Compute(pulumi.CustomResource):
    token: str

    def __init__(self, name: str, inputs: Inputs, opts: pulumi.ResourceOptions) -> None:
        super().__init__(self.token, name, dict(inputs), opts)


class VpcNetwork(_Compute):
    token = "gcp:compute/network:Network"


class Subnetwork(_Compute):
    token = "gcp:compute/subnetwork:Subnetwork"


class Firewall(_Compute):
    token = "gcp:compute/firewall:Firewall"


class Router(_Compute):
    token = "gcp:compute/router:Router"


class RouterNat(_Compute):
    token = "gcp:compute/routerNat:RouterNat"
