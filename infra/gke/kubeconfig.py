"""How a cluster of GKE is reached: a kubeconfig of what Google says of it. Pure.

A cluster's name in Google's DNS has a certificate that everybody trusts, so none of the cluster's own is needed with
it; who asks is told by a token of Google's, which `slipway token` prints. No secret is in the text, and no path of
one machine, since it is kept in the state. Refuses to own where the token comes from (infra/google_login.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from infra.google_login import CREDENTIAL_API

_GOOGLES = ".gke.goog"
_HINT = "run .venv/bin/pulumi, or put .venv/bin of this clone on PATH"


def kubeconfig(name: str, found: Mapping[str, Any], command: str = "slipway") -> dict[str, Any]:
    """found: the cluster, as the API or Google's plugin has it. command: our own, as whoever asks finds it."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": _server(found)}],
        "users": [{"name": name, "user": {"exec": _login(command)}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }


def server_of(text: str) -> str:
    """Where the cluster of such a kubeconfig, as JSON, is asked."""
    (only,) = json.loads(text)["clusters"]
    return str(only["cluster"]["server"])


def _server(found: Mapping[str, Any]) -> dict[str, str]:
    """By Google's name for it; where it has none, by its address, with its own certificate."""
    endpoint = _text(found, "controlPlaneEndpointsConfig", "dnsEndpointConfig", "endpoint")
    server = {"server": f"https://{endpoint or _text(found, 'endpoint')}"}
    if endpoint.endswith(_GOOGLES):
        return server
    return server | {"certificate-authority-data": _text(found, "masterAuth", "clusterCaCertificate")}


def _login(command: str) -> dict[str, Any]:
    return {
        "apiVersion": CREDENTIAL_API,
        "command": command,
        "args": ["token"],
        "interactiveMode": "Never",
        "provideClusterInfo": False,
        "installHint": _HINT,
    }


def _text(found: Mapping[str, Any], *path: str) -> str:
    value: object = found
    for key in path:
        value = cast(Mapping[str, object], value).get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""
