"""By which network GPU hosts reach each other, and what their pods are told of it. Pure.

Owns the reading of gpu_networks.yaml, the rows of training/gpu_environment.py that a pod gets, and what is said where
too little is known. Refuses to own which accelerator has which network (infra/hardware.yaml).
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, cast

import yaml

from infra.pods.pod_group import BesideTraining
from infra.targets.host_variables import HostVariable
from training import gpu_environment

_TABLE = Path(__file__).with_suffix(".yaml")


class GpuNetwork(StrEnum):
    TCPXO = gpu_environment.TCPXO
    EFA = "efa"
    NONE = "none"  # nobody knows of any: NCCL takes what it finds


def plugin(network: GpuNetwork) -> str:
    """The version of NCCL's plugin for it; empty where none is known."""
    return str(_row(network).get("plugin", ""))


def unknown(network: GpuNetwork) -> str:
    """What no source says of it."""
    return str(_row(network).get("unknown", ""))


def mtu(network: GpuNetwork) -> int | None:
    """Of the networks of a host's data cards; None where it has none of its own."""
    return _row(network).get("mtu")


def daemons(network: GpuNetwork) -> tuple[str, ...]:
    """What runs on each of GKE's nodes for it."""
    return tuple(_row(network).get("daemons", ()))


def beside_training(network: GpuNetwork) -> BesideTraining:
    """What a pod has for it."""
    pod: dict[str, Any] = _row(network).get("pod", {})
    parts = (tuple(pod.get(key, ())) for key in ("sidecars", "volumes", "mounts"))
    return BesideTraining(pod.get("annotations", {}), *parts)


def title(network: GpuNetwork) -> str:
    return str(_row(network).get("title", "no network that is known"))


def notices(network: GpuNetwork, refuses_sockets: bool) -> tuple[str, ...]:
    """What a reviewer should know of it."""
    version = f", NCCL's plugin {plugin(network)}" if plugin(network) else ""
    sockets = "a training over plain sockets ends" if refuses_sockets else "plain sockets are taken"
    line = f"between hosts: {title(network)}{version}; {sockets}"
    lacking = (f"not known of {title(network)}: {unknown(network)}",) if unknown(network) else ()
    return (line, *lacking)


def variables(network: GpuNetwork, refuses_sockets: bool) -> tuple[HostVariable, ...]:
    """Of a host's environment."""
    rows = gpu_environment.variables(network, plugin(network))
    own = [HostVariable(each.name, each.value, each.why, each.source, _holds(each)) for each in rows]
    if network is not GpuNetwork.NONE:
        own.append(
            HostVariable(gpu_environment.NETWORK, network, "which network NCCL shall take", "stack and hardware")
        )
    if refuses_sockets:
        why = "allow_sockets is false: a training over plain sockets ends"
        own.append(HostVariable(gpu_environment.SOCKETS, gpu_environment.REFUSED, why, "stack"))
    return tuple(own)


def _holds(row: gpu_environment.Setting) -> str:
    return f"plugin {row.plugin}" if row.network else ""


def _row(network: GpuNetwork) -> dict[str, Any]:
    return _document().get(network, {})


@cache
def _document() -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return cast(dict[str, Any], yaml.load(_TABLE.read_text(encoding="utf-8"), loader))  # noqa: S506 (both are safe)
