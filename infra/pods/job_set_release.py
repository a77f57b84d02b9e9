"""JobSet's own release in the version that Slipway installs: which it is, what it is made of, what of it we use.

Its project publishes one file of manifests, which is not in this repository: it is known by its content, and comes from
the project's release or from a file of the operator's. The published file names an image of Kubernetes' staging
registry, which is deleted after some weeks (kubernetes-sigs/jobset, issues 1113 and 1216), so what runs is the released
image, or the one that the stack names. Refuses to own who applies it
(infra/providers/job_set_installation_resource.py).
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from infra.names import STATE_LABEL
from infra.pods.job_set import API_VERSION
from infra.pods.pod_group import Manifest
from infra.targets.errors import TargetError

VERSION = "v0.10.1"  # the same as of tools/cluster/control-plane/go.mod
CONTENT = "085e6e65d8c9e26f0d73338cc45d20e639900c8e1c761b56224fde9080bd0427"  # what `content` says of it
URL = f"https://github.com/kubernetes-sigs/jobset/releases/download/{VERSION}/manifests.yaml"
IMAGE = f"registry.k8s.io/jobset/jobset:{VERSION}"
NAMESPACE = "jobset-system"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/jobsets.jobset.x-k8s.io"
CONTROLLER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/jobset-controller-manager"
CONTROLLER_PODS = "control-plane=controller-manager"  # the label of its pods
JOB_SETS = f"/apis/{API_VERSION}/jobsets"  # of all namespaces
PROBES = f"/apis/{API_VERSION}/namespaces/{NAMESPACE}/jobsets"
BY_HAND = f"kubectl apply --server-side -f {URL}"


class ReleaseError(TargetError):
    """What was found is not the release that it should be."""


def manifests_of(file: str) -> list[Manifest]:
    """Those of a file of the operator's. Raises ReleaseError."""
    where = f"jobset_manifests '{file}'"
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ReleaseError(f"{where} cannot be read: {error}; JobSet {VERSION}'s is at {URL}") from None
    return manifests_in(text, where)


def manifests_in(text: str, where: str) -> list[Manifest]:
    """Those of the published file, in their order. Raises ReleaseError where its content is another."""
    try:
        found: list[Any] = list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        manifests = [cast(Manifest, each) for each in found if each]
        digest = content(manifests)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        raise ReleaseError(f"{where} is no file of manifests; JobSet {VERSION}'s is at {URL}") from None
    if digest != CONTENT:
        raise ReleaseError(
            f"{where} is not JobSet {VERSION}: its content is {digest[:16]}, that of the release is {CONTENT[:16]}; "
            f"it is at {URL}"
        )
    return manifests


def content(manifests: Iterable[Manifest]) -> str:
    """SHA-256 of what the manifests say, however they are spelled and ordered, but for the controller's image."""
    said = sorted((_with_image(each, "") for each in manifests), key=path)
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def prepared(manifests: Iterable[Manifest], image: str, identity: str) -> list[Manifest]:
    """As they are applied: with the image that runs, labelled with the state that has made them."""
    made: list[Manifest] = []
    for manifest in manifests:
        each = _with_image(manifest, image)
        each["metadata"]["labels"] = each["metadata"].get("labels", {}) | {STATE_LABEL: identity}
        made.append(each)
    return made


def path(manifest: Manifest) -> str:
    """Of the API: where the object is."""
    version, metadata = str(manifest["apiVersion"]), manifest["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    within = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{root}{within}/{str(manifest['kind']).lower()}s/{metadata['name']}"


def is_made_by(found: Manifest, identity: str) -> bool:
    """Whether an object of the cluster is that state's."""
    return found["metadata"].get("labels", {}).get(STATE_LABEL) == identity


def installed_version(controller: Manifest | None) -> str:
    """What its image is tagged with; empty where that cannot be told."""
    images = [each["image"] for each in _containers(controller)] if controller else []
    name, _, tag = str(images[0] if images else "").partition("@")[0].rpartition(":")
    return tag if name and "/" not in tag else ""


def used_fields(job_set: Manifest) -> list[str]:
    """What of JobSet's own fields a manifest has, like `spec.failurePolicy.maxRestarts`; those of its jobs are not."""
    return sorted(set(_paths(job_set["spec"], "spec")))


def unknown_fields(definition: Manifest, fields: Sequence[str]) -> list[str]:
    """Those that the cluster's JobSet does not have."""
    version = API_VERSION.rpartition("/")[2]
    schemas = [each["schema"]["openAPIV3Schema"] for each in definition["spec"]["versions"] if each["name"] == version]
    return [each for each in fields if not (schemas and _has(schemas[0], each.split(".")))]


def too_old(definition: Manifest, controller: Manifest | None, fields: Sequence[str]) -> str:
    """What to do about a JobSet that lacks something; empty where it lacks nothing."""
    lacking = unknown_fields(definition, fields)
    if not lacking:
        return ""
    version = installed_version(controller)
    return (
        f"its JobSet{f' {version}' if version else ''} does not know {', '.join(lacking)}; whoever installed it has to "
        f"bring {VERSION} or newer, or write `slipway:job_kind: job`"
    )


def _paths(value: Any, at: str) -> Iterable[str]:
    if isinstance(value, list):
        for each in cast(list[Any], value):
            yield from _paths(each, at)
    elif isinstance(value, dict) and not at.endswith(".template"):
        for key, each in cast(Manifest, value).items():
            yield from _paths(each, f"{at}.{key}")
    else:
        yield at


def _has(schema: Manifest, keys: Sequence[str]) -> bool:
    if not keys:
        return True
    properties: Manifest = schema.get("items", schema).get("properties", {})
    return keys[0] in properties and _has(properties[keys[0]], keys[1:])


def _with_image(manifest: Manifest, image: str) -> Manifest:
    made = copy.deepcopy(manifest)
    for container in _containers(made):
        container["image"] = image
    return made


def _containers(manifest: Manifest) -> list[Manifest]:
    if manifest["kind"] != "Deployment":
        return []
    return manifest["spec"]["template"]["spec"]["containers"]
