"""What GKE fills in of a cluster and its pools, as words for the templates of kinds.py.

Owns which zones nodes are in, which cluster a pool belongs to, and versions and addresses that are made up, since
nobody listens there. Pure. Refuses to own what GKE would not make (gke_refusals.py).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, cast

CLUSTER, POOL = "gcp:container/cluster:Cluster", "gcp:container/nodePool:NodePool"
_CLUSTER_PATH = re.compile(r"projects/([^/]+)/locations/([^/]+)/clusters/([^/]+)")
_ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")
_ZONES_OF_A_REGION = "abc"  # as many as GKE takes; which ones it takes only it knows
_VERSION = "1.34.0-gke.2201000"  # a version that there is; which one a channel has today only GKE knows
_NO_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nof no cluster: the stand-in made it\n-----END CERTIFICATE-----\n"
_NAME_PART = 20  # of a cluster's and of a pool's name in those of their instance groups


def cluster_words(inputs: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, str]:
    location = words["location"]
    private = _object(inputs, "privateClusterConfig")
    endpoints = {"publicEndpoint": "192.0.2.1", "privateEndpoint": "192.0.2.2"}
    return endpoints | {
        "endpoint": endpoints["privateEndpoint" if private.get("enablePrivateEndpoint") else "publicEndpoint"],
        "certificate": base64.b64encode(_NO_CERTIFICATE.encode()).decode(),
        "region": _region(location),
        "version": str(inputs.get("minMasterVersion") or _VERSION),
        "zones": ",".join(_zones(inputs, location)),
    }


def pool_words(inputs: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, str]:
    path = _CLUSTER_PATH.search(words["cluster"])
    place = {"project": path[1], "location": path[2]} if path else {}
    nodes = inputs.get("nodeCount")
    at_first = inputs.get("initialNodeCount")
    return place | {
        "clusterName": path[3] if path else words["cluster"],
        "clusterPart": (path[3] if path else words["cluster"])[:_NAME_PART],
        "poolPart": words.get("name", "")[:_NAME_PART],
        "groupHash": words["urnHash"][:8],
        "nodeCount": str(next((each for each in (nodes, at_first) if each is not None), 0)),
        "initialNodeCount": str(next((each for each in (at_first, nodes) if each is not None), 0)),
        "version": str(inputs.get("version") or _VERSION),
        "zones": ",".join(_zones(inputs, place.get("location") or words["location"])),
    }


def _zones(inputs: Mapping[str, Any], location: str) -> list[str]:
    """Of nodes: those that are given, or the zone of a cluster that is in one, or some of its region."""
    given: object = inputs.get("nodeLocations")
    if isinstance(given, list) and given:
        return [str(zone) for zone in cast(list[object], given)]
    return [location] if _ZONE.fullmatch(location) else [f"{location}-{letter}" for letter in _ZONES_OF_A_REGION]


def _region(location: str) -> str:
    return location.rpartition("-")[0] if _ZONE.fullmatch(location) else location


def _object(inputs: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = inputs.get(key)
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {}
