"""The cluster of a stack and the pool for what is no training, as Google's plugin is told of them. Pure.

A private cluster: nodes have no addresses outside, the control plane none at all but Google's name for it, which lets
in whoever IAM does. Refuses to own pools with accelerators (node_pools.py) and accounts (accounts.py).
"""

from __future__ import annotations

from typing import Any

from infra.gke import accounts
from infra.gke.settings import GkeSettings
from infra.google_cloud.api import SCOPE

type Inputs = dict[str, Any]

SYSTEM_POOL = "system"


def service_inputs(settings: GkeSettings) -> Inputs:
    """GKE's API, which a foundation does not enable; destroy leaves it to others in the project."""
    return {"project": settings.project, "service": "container.googleapis.com", "disableOnDestroy": False}


def cluster_inputs(settings: GkeSettings) -> Inputs:
    own = settings.names
    version = settings.cluster_version or settings.minimum_version
    return {
        "name": settings.cluster_name,
        "project": settings.project,
        "location": settings.place,
        "network": settings.network or own.network_path,
        "subnetwork": settings.subnet or own.subnet_path,
        "deletionProtection": False,  # destroy ends what is billed
        # GKE makes no cluster without a pool; this one is gone before `up` ends, and must not be the default account's.
        "removeDefaultNodePool": True,
        "initialNodeCount": 1,
        "nodeConfig": {"serviceAccount": settings.node_email, "oauthScopes": [SCOPE]},
        "networkingMode": "VPC_NATIVE",
        "ipAllocationPolicy": {"stackType": "IPV4"},  # GKE takes the ranges of pods and services that are free
        "privateClusterConfig": {"enablePrivateNodes": True, "enablePrivateEndpoint": True},
        "controlPlaneEndpointsConfig": {
            "dnsEndpointConfig": {"allowExternalTraffic": True},
            "ipEndpointsConfig": {"enabled": False},
        },
        "workloadIdentityConfig": {"workloadPool": accounts.identity_pool(settings)},
        "releaseChannel": {"channel": settings.release_channel.upper()},
        "addonsConfig": {"gcsFuseCsiDriverConfig": {"enabled": True}},
        "monitoringConfig": {"enableComponents": _monitored(settings), "managedPrometheus": {"enabled": True}},
        "resourceLabels": settings.all_labels,
        **({"minMasterVersion": version} if version else {}),
        # Nodes with several networks; of the two that GKE has for pods only the newer one knows them.
        **({"enableMultiNetworking": True, "datapathProvider": "ADVANCED_DATAPATH"} if settings.data_cards else {}),
    }


def _monitored(settings: GkeSettings) -> list[str]:
    of_gpus = ["DCGM"] if settings.row.platform == "gpu" else []
    return ["SYSTEM_COMPONENTS", *of_gpus]


def system_pool_inputs(settings: GkeSettings) -> Inputs:
    """A node in each of the cluster's zones, for pods that stand no taint. Never spot: JobSet runs here."""
    return pool_inputs(settings, SYSTEM_POOL) | {
        "nodeCount": 1,
        "management": {"autoRepair": True, "autoUpgrade": True},
        "nodeConfig": node_config(settings, settings.system_machine_type),
    }


def pool_inputs(settings: GkeSettings, name: str) -> Inputs:
    """What every pool of the cluster is told."""
    return {
        "name": name,
        "project": settings.project,
        "location": settings.place,
        "networkConfig": {"enablePrivateNodes": True},
    }


def node_config(settings: GkeSettings, machine: str) -> Inputs:
    """What every node of the cluster is told."""
    return {
        "machineType": machine,
        "serviceAccount": settings.node_email,
        "oauthScopes": [SCOPE],  # what the account may do is said by its roles
        "workloadMetadataConfig": {"mode": "GKE_METADATA"},  # pods are their own account, not the node's
        "resourceLabels": settings.all_labels,
        **({"tags": list(settings.tags)} if settings.tags else {}),
    }
