"""When GKE refuses a cluster, a pool of nodes, or a Kubernetes account as a member, in Google's own sentences.

Owns the reasons; preconditions.py says in which order they are asked, and where each was seen. A slice is known by
machine and topology, from the hardware table. Refuses to own what it does not know: of a topology that is in no row it
says nothing, and knows no quota, version or stock.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from infra.hardware import Accelerator, rows
from infra.providers.resource import ResourceError
from infra.standins.gcp import gke
from infra.standins.gcp.making import Making

_BAD_REQUEST = "googleapi: Error 400: {}, badRequest"


def absent_network(making: Making) -> str | None:
    """None named is `default`, which the stand-in's projects do not have."""
    name = (making.text("network") or "default").rpartition("/")[2]
    if making.exists("gcp:compute/network:Network", f"projects/{making.project}/global/networks/{name}"):
        return None
    return _BAD_REQUEST.format(f'Project "{making.project}" has no network named "{name}".')


def absent_cluster(making: Making) -> str | None:
    cluster = cluster_of(making)
    if making.exists(gke.CLUSTER, cluster):
        return None
    return f"error creating NodePool: googleapi: Error 404: Not found: {cluster}., notFound"


def absent_account(making: Making) -> str | None:
    email = str(making.object("nodeConfig").get("serviceAccount") or "default")
    address = re.fullmatch(r"[^@]+@([^@]+)\.iam\.gserviceaccount\.com", email)
    if address is None:  # `default`, or one of Google's own
        return None
    name, _, domain = address[1].partition(".")
    project = f"{domain}:{name}" if domain else name  # an address has a domain-scoped project the other way round
    if making.exists("gcp:serviceaccount/account:Account", f"projects/{project}/serviceAccounts/{email}"):
        return None
    return _BAD_REQUEST.format(f'Service account "{email}" does not exist.')


def absent_identity_pool(making: Making) -> str | None:
    """A project has its pool from the first cluster on that names it."""
    member = re.fullmatch(r"serviceAccount:([^\[\]]+\.svc\.id\.goog)\[[^/]+/[^/]+\]", making.text("member"))
    if member is None:
        return None
    clusters = making.store.every(gke.CLUSTER)
    if any(each.get("workloadIdentityConfig", {}).get("workloadPool") == member[1] for each in clusters):
        return None
    account = making.text("serviceAccountId")
    return (
        f"Error applying IAM policy for service account '{account}': Error setting IAM policy for service account "
        f"'{account}': googleapi: Error 400: Identity Pool does not exist ({member[1]}). Please check that you "
        "specified a valid resource name as returned in the `name` attribute in the configuration API., badRequest"
    )


def compact_ironwood(making: Making) -> str | None:
    machine = _machine(making)
    if not machine.startswith("tpu7x-") or making.object("placementPolicy").get("type") != "COMPACT":
        return None
    return _BAD_REQUEST.format(
        f"Creation of a managed instance group with {machine} machine type with placement policy is not supported. "
        "Use workload policy instead."
    )


def topology_of_one_host(making: Making) -> str | None:
    size = slice_of(making)
    if size is None or size.hosts > 1:
        return None
    return _BAD_REQUEST.format(
        "TPU topology can't be specified with single-host TPU slice pool; please remove the tpu_topology from the node "
        "pool creation request if the node pool is intented to run with single-host TPU slice nodes."
    )


def bounds_of_no_slice(making: Making) -> str | None:
    """An autoscaled pool has none of its nodes or all; bounds of all zones together are sent with a maximum of 0."""
    size, bounds = slice_of(making), making.object("autoscaling")
    if size is None or not bounds:
        return None
    together = any(bounds.get(key) is not None for key in ("totalMinNodeCount", "totalMaxNodeCount"))
    most = 0 if together else _count(bounds.get("maxNodeCount"))
    least = 0 if together else _count(bounds.get("minNodeCount"))
    wrong = f"Maximum node count {most}" if most != size.hosts else f"Minimum node count {least}"
    if most == size.hosts and least in (0, size.hosts):
        return None
    return _BAD_REQUEST.format(f"{wrong} is not a valid size of TPU pod slice with topology {size.topology_text}")


def part_of_a_slice(making: Making) -> str | None:
    """A pool that is not autoscaled has all nodes of its slice."""
    size = slice_of(making)
    counts = (making.inputs.get(key) for key in ("nodeCount", "initialNodeCount"))
    given = next((_count(each) for each in counts if each is not None), 0)
    if size is None or given == size.hosts or (making.object("autoscaling") and given == 0):
        return None
    return (
        f"Google Compute Engine: Invalid value for field 'resource.resizeBy': '{given}'. Requested invalid target size "
        f"'{given}' for a Managed Instance Group in the gang mode of size '{size.hosts}'. Should be equal to the gang "
        "size."
    )


def check_delete(token: str, properties: Mapping[str, Any]) -> None:
    """Raises ResourceError as the plugin does before it asks GKE; where nothing is said a cluster is protected."""
    if token == gke.CLUSTER and properties.get("deletionProtection") is not False:
        raise ResourceError(
            "Cannot destroy cluster because deletion_protection is set to true. Set it to false to proceed with "
            "cluster deletion."
        )


def cluster_of(making: Making) -> str:
    """The path of the cluster that a pool is to be in."""
    cluster = making.text("cluster")
    settings = making.settings
    location = making.text("location") or settings["zone"] or settings["region"]
    return cluster if "/" in cluster else f"projects/{making.project}/locations/{location}/clusters/{cluster}"


def slice_of(making: Making) -> Accelerator | None:
    """The slice whose nodes a pool has, if its topology is named and the hardware table has it."""
    topology = making.object("placementPolicy").get("tpuTopology")
    machine = _machine(making)
    of_machine = (row for row in rows("tpu") if row.machine and row.machine.name == machine)
    return next((row for row in of_machine if topology and row.topology_text == topology), None)


def _machine(making: Making) -> str:
    return str(making.object("nodeConfig").get("machineType") or "")


def _count(value: Any) -> int:
    return int(cast(str | float, value)) if value else 0
