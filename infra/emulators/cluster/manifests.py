"""What JobSet, Kueue, kwok and GKE publish to be applied, as it is where controllers are processes beside the cluster.

Owns what is left out and where webhooks are. Pure. Refuses to own their text, which lies in their Go modules.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any, cast

from infra.emulators.cluster.built_programs import Manifest
from infra.emulators.cluster.components import HOST, Layout

# A controller that runs beside the cluster needs no pod, and nobody would find it by a Service.
_OF_PODS = ("Deployment", "Service", "ConfigMap", "APIService")
_OF_GKE = ("gke-networks", "gke-network-parameters")  # GKE defines them in clusters whose nodes have several networks
_DEFINITION = "CustomResourceDefinition"
# It would end the pods of a Job at once, as if they had succeeded; pods here run until somebody ends them.
_STAGES_LEFT_OUT = ("pod-complete",)


def kinds(layout: Layout) -> list[Manifest]:
    """What defines kinds, and must be known before anything of them is applied."""
    return [each for each in _published(layout) if each["kind"] == _DEFINITION]


def not_established(there: Iterable[Manifest]) -> list[str]:
    """Names of the definitions whose kinds the API server does not serve yet."""
    return [each["metadata"]["name"] for each in there if not _is_established(each)]


def _is_established(definition: Manifest) -> bool:
    conditions: list[Manifest] = definition.get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def accesses(layout: Layout) -> list[Manifest]:
    """Namespaces, accounts, roles and webhooks of the controllers."""
    every = (*_published(layout), *layout.programs.manifests("kwok-access"))
    return [each for each in every if each["kind"] != _DEFINITION]


def stages(layout: Layout) -> list[Manifest]:
    """What kwok does with nodes and pods.

    From a file: where kwok 0.7 takes them from the API server it may miss that they are there, and no node is ready.
    """
    every = (*layout.programs.manifests("kwok-nodes"), *layout.programs.manifests("kwok-pods"))
    return [each for each in every if each["metadata"]["name"] not in _STAGES_LEFT_OUT]


def _published(layout: Layout) -> list[Manifest]:
    webhooks = {"jobset": layout.ports.jobset_webhooks}
    if layout.has_kueue:
        webhooks["kueue"] = layout.ports.kueue_webhooks
    authority = layout.certificates.authority.read_bytes()
    of_controllers = [
        each for name, port in webhooks.items() for each in adapted(layout.programs.manifests(name), port, authority)
    ]
    return [*of_controllers, *(each for name in _OF_GKE for each in layout.programs.manifests(name))]


def adapted(published: Iterable[Manifest], webhooks_port: int, authority: bytes) -> list[Manifest]:
    """Webhooks are asked on this machine, since a Service of the cluster leads nowhere."""
    return [_with_urls(each, webhooks_port, authority) for each in published if each["kind"] not in _OF_PODS]


def _with_urls(value: Any, port: int, authority: bytes) -> Any:
    if isinstance(value, list):
        return [_with_urls(each, port, authority) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    fields = cast(Manifest, value)
    if "service" in fields.get("clientConfig", {}):
        url = f"https://{HOST}:{port}{fields['clientConfig']['service'].get('path', '/')}"
        client = {"url": url, "caBundle": base64.b64encode(authority).decode()}
        fields = {**fields, "clientConfig": client}
    return {key: _with_urls(each, port, authority) for key, each in fields.items()}
