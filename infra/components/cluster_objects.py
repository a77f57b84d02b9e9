"""Objects of Kubernetes as the program declares them, whoever's cluster they are in.

They are declared by their type token, as the SDK's classes would be: importing those takes seconds. Refuses to own what
a manifest says (infra/pods/) and which cluster it is (the target's component).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pulumi

from infra.names import STATE_LABEL

type Manifest = dict[str, Any]

_PODS = ("JobSet", "Job")
_NOT_AWAITED = (*_PODS, "DaemonSet")


def declare_objects(
    manifests: Iterable[Manifest],
    parent: pulumi.Resource,
    after: Sequence[pulumi.Resource],
    cluster: pulumi.ProviderResource,
    identity: pulumi.Output[str],
    job_sets: pulumi.Output[str] | None = None,
    in_order: bool = True,
) -> list[pulumi.Resource]:
    """Declare each after `after` and, in_order, those before it, labelled with the state's identity; returns them.

    job_sets: the version of JobSet where it has yet to be installed. Until it is known, a preview can try none of them.
    """
    made: list[pulumi.Resource] = list(after)
    for manifest in manifests:
        before = list(made) if in_order else list(after)
        options = pulumi.ResourceOptions(parent=parent, depends_on=before, provider=cluster)
        if manifest["kind"] in _PODS:
            # Pulumi's plugin does not see that hardly anything of these may change, and names are fixed.
            options.replace_on_changes, options.delete_before_replace = ["spec"], True
        following = {"name": _once_known(job_sets, manifest)} if job_sets and manifest["kind"] == "JobSet" else {}
        made.append(_object(manifest, identity, options, following))
    return made[len(after) :]


def _once_known(job_sets: pulumi.Output[str], manifest: Manifest) -> pulumi.Output[str]:
    name: str = manifest["metadata"]["name"]
    return job_sets.apply(lambda _: name)


def _object(
    manifest: Manifest,
    identity: pulumi.Output[str],
    options: pulumi.ResourceOptions,
    following: Mapping[str, pulumi.Output[str]],
) -> pulumi.CustomResource:
    """following: metadata that other resources tell."""
    labelled: dict[str, Any] = copy.deepcopy(manifest)
    labelled["metadata"] |= following
    labelled["metadata"]["labels"] |= {STATE_LABEL: identity}
    if manifest["kind"] in _NOT_AWAITED:
        labelled["metadata"].setdefault("annotations", {})["pulumi.com/skipAwait"] = "true"  # or `up` ends with the run
    return pulumi.CustomResource(_token(manifest), _word(manifest), labelled, options)


def _token(manifest: Manifest) -> str:
    """As pulumi-kubernetes spells a kind: the core group has a name there."""
    version = manifest["apiVersion"]
    return f"kubernetes:{version if '/' in version else f'core/{version}'}:{manifest['kind']}"


def _word(manifest: Manifest) -> str:
    """The resource's name in the state, after what it is for."""
    words = {"ServiceAccount": "account", "ConfigMap": "script", "JobSet": "pods", "Service": "names"}
    name: str = manifest["metadata"]["name"]
    of_kind = f"pods-{name.rpartition('-')[2]}" if manifest["kind"] == "Job" else name
    return words.get(manifest["kind"]) or of_kind
