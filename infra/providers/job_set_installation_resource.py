"""slipway:kubernetes:JobSetInstallation: JobSet's definition and controller in a cluster that had none.

What is there already is used as it is, and stays. Of what it makes itself each object has the label of the state, by
which a killed `up` goes on and a delete takes nothing of anybody else. The manifests do not pass through the engine:
JobSet's definition is nested deeper than its protocol allows. Refuses to own what they say
(infra/pods/job_set_release.py) and JobSets themselves.
"""

from __future__ import annotations

import contextlib
import json
import ssl
from collections.abc import Generator, Iterable, Sequence
from typing import Any

from infra.pods import job_set_release, pod_view
from infra.pods.cluster import Cluster, ClusterRefusedError
from infra.pods.job_set import API_VERSION
from infra.providers.inputs import JobSetInstallationInputs
from infra.providers.object_watch import watched
from infra.providers.resource import Context, DeadlineError, Outputs, Resource, ResourceError
from infra.targets.errors import TargetError

_OUTPUTS = ("made", "installed", "objects", "lacks", "ready")
_MANAGER = "slipway"
_PAUSE_S = 0.5
_FETCH_S = 30.0
_NOT_YET = (404, 500, 503)  # the kind is not served, or its webhook does not answer
_NAMED = 3  # how many JobSets a sentence names
_POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "none", "image": "none"}]}}
_PROBE: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": "JobSet",
    "metadata": {"name": "slipway-asks", "namespace": job_set_release.NAMESPACE},
    "spec": {"replicatedJobs": [{"name": "none", "template": {"spec": {"template": _POD}}}]},
}


class JobSetInstallationResource(Resource[JobSetInstallationInputs]):
    inputs = JobSetInstallationInputs
    timeout_s = 900.0
    refresh_before_update = True

    def create(self, context: Context, new: JobSetInstallationInputs) -> tuple[str, Outputs]:
        identifier = f"{new.cluster}/jobset"
        with _told():
            cluster = _reached(new.cluster, new.kubeconfig)
            definition = cluster.find(job_set_release.DEFINITION)
            if definition and not job_set_release.is_made_by(definition, new.identity):
                return identifier, _as_it_is(cluster, definition, new)
            manifests = _to_make(cluster, _published(context, new), new)
            outputs = _made(manifests, new)
            context.accept(identifier, outputs | {"ready": False})
            _install(context, cluster, manifests, new.image)
            return identifier, outputs

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        with _told():
            cluster = _reached(outputs["cluster"], outputs["kubeconfig"])
            definition = cluster.find(job_set_release.DEFINITION)
            if definition is None:
                return None
            if not (outputs["made"] and job_set_release.is_made_by(definition, outputs["identity"])):
                controller = cluster.look(job_set_release.CONTROLLER)
                return _found(job_set_release.installed_version(controller))
            return {"lacks": [path for path in outputs["objects"] if cluster.is_there(path) is False]}

    def drift(self, outputs: Outputs) -> list[str]:
        """A part is gone, or an `up` ended before the controller ran."""
        return (["lacks"] if outputs["lacks"] else []) + ([] if outputs["ready"] else ["ready"])

    def update(self, context: Context, identifier: str, outputs: Outputs, new: JobSetInstallationInputs) -> Outputs:
        """Another release takes the place of the one that was made; of what others have made nothing is changed."""
        known = (outputs["version"], outputs["content"], outputs["image"])
        if outputs["made"] and not self.drift(outputs) and known == (new.version, new.content, new.image):
            return {key: outputs[key] for key in _OUTPUTS}
        installed = self.create(context, new)[1]
        gone = [path for path in outputs.get("objects", ()) if path not in installed["objects"]]
        if installed["made"] and gone:
            with _told():
                _remove(context, _reached(new.cluster, new.kubeconfig), gone, new.identity)
        return installed

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        if not outputs["made"]:
            return
        with _told():
            cluster = _reached(outputs["cluster"], outputs["kubeconfig"])
            if kept_by := _job_sets(context, cluster, outputs["identity"]):
                named = ", ".join(kept_by[:_NAMED]) + (", ..." if len(kept_by) > _NAMED else "")
                context.say(f"JobSet stays in the cluster: JobSets are there ({named})")
                return
            _remove(context, cluster, outputs["objects"], outputs["identity"])


def _reached(cluster: str, kubeconfig: str) -> Cluster:
    if not kubeconfig:
        return Cluster(cluster)
    given: dict[str, Any] = json.loads(kubeconfig)
    return Cluster(given["current-context"], given)


def _found(version: str) -> Outputs:
    return {"made": False, "installed": version, "objects": [], "lacks": [], "ready": True}


def _made(manifests: Iterable[dict[str, Any]], new: JobSetInstallationInputs) -> Outputs:
    objects = [job_set_release.path(each) for each in manifests]
    return {"made": True, "installed": new.version, "objects": objects, "lacks": [], "ready": True}


def _as_it_is(cluster: Cluster, definition: dict[str, Any], new: JobSetInstallationInputs) -> Outputs:
    controller = cluster.look(job_set_release.CONTROLLER)
    if problem := job_set_release.too_old(definition, controller, new.fields):
        raise ResourceError(f"the cluster of context '{cluster.context}': {problem}")
    return _found(job_set_release.installed_version(controller))


# --- the manifests ---


def _published(context: Context, new: JobSetInstallationInputs) -> list[dict[str, Any]]:
    """Raises ResourceError where they cannot be had, or are not what they should be."""
    if new.source.startswith("https://"):
        context.report(f"fetching {new.source}")
        return job_set_release.manifests_in(_fetched(new.source), new.source)
    return job_set_release.manifests_of(new.source)


def _fetched(url: str) -> str:
    import httpx

    try:
        trust = ssl.create_default_context()
        answer = httpx.get(url, verify=trust, follow_redirects=True, timeout=_FETCH_S).raise_for_status()
    except httpx.HTTPError as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise ResourceError(
            f"JobSet's manifests cannot be fetched from {url} ({said}); bring the file to this machine and write "
            f"`slipway:jobset_manifests: <file>`"
        ) from None
    return answer.text


def _to_make(cluster: Cluster, published: list[dict[str, Any]], new: JobSetInstallationInputs) -> list[dict[str, Any]]:
    """Without a namespace that is there already. Raises ResourceError for anything else that somebody else has made."""
    wanted: list[dict[str, Any]] = []
    for manifest in job_set_release.prepared(published, new.image, new.identity):
        there = cluster.find(job_set_release.path(manifest))
        if there is None or job_set_release.is_made_by(there, new.identity):
            wanted.append(manifest)
        elif manifest["kind"] != "Namespace":
            raise ResourceError(
                f"the cluster of context '{cluster.context}' has no JobSet, but of one that was there "
                f"{manifest['kind']} {manifest['metadata']['name']} is left; remove it, or complete it: "
                f"{job_set_release.BY_HAND}"
            )
    return wanted


# --- what is done ---


def _install(context: Context, cluster: Cluster, manifests: Sequence[dict[str, Any]], image: str) -> None:
    for manifest in manifests:
        context.wait(0)
        context.report(f"applying {manifest['kind']} {manifest['metadata']['name']}")
        cluster.apply(job_set_release.path(manifest), manifest, _MANAGER)
    context.report("waiting until the API server knows JobSets")
    for definition in watched(context, cluster, *_split(job_set_release.DEFINITION)):
        if _has_condition(definition, "Established"):
            break
    _wait_for_controller(context, cluster, image)
    _wait_for_webhook(context, cluster)


def _split(path: str) -> tuple[str, dict[str, str]]:
    """An object's path as a list's, with what chooses it there."""
    listed, _, name = path.rpartition("/")
    return listed, {"fieldSelector": f"metadata.name={name}"}


def _has_condition(found: dict[str, Any], kind: str) -> bool:
    conditions: list[dict[str, Any]] = found.get("status", {}).get("conditions") or []
    return any(each["type"] == kind and each["status"] == "True" for each in conditions)


def _wait_for_controller(context: Context, cluster: Cluster, image: str) -> None:
    """Until a pod of it is ready, with why it is not as progress."""
    why = "it has no pod yet"
    context.report(f"waiting for JobSet's controller: {why}")
    pods = f"/api/v1/namespaces/{job_set_release.NAMESPACE}/pods"
    try:
        for pod in watched(context, cluster, pods, {"labelSelector": job_set_release.CONTROLLER_PODS}):
            if pod["spec"]["containers"][0]["image"] != image:
                continue
            if _has_condition(pod, "Ready"):
                return
            why = pod_view.phase_of(pod)[1] or "it is not ready"
            context.report(f"waiting for JobSet's controller: {why}")
    except DeadlineError as error:
        raise DeadlineError(f"JobSet's controller does not run: {why}; {error}") from None


def _wait_for_webhook(context: Context, cluster: Cluster) -> None:
    """Until a JobSet that is only tried would be admitted."""
    while True:
        try:
            cluster.try_create(job_set_release.PROBES, _PROBE)
        except ClusterRefusedError as error:
            if error.status not in _NOT_YET:
                raise
            context.report(f"waiting for JobSet's webhook: {error}")
            context.wait(_PAUSE_S)
        else:
            return


def _job_sets(context: Context, cluster: Cluster, identity: str) -> list[str]:
    """Those that would go with the definition, once what this state has deleted is gone."""
    while True:
        listed = cluster.find(job_set_release.JOB_SETS)
        found: list[dict[str, Any]] = listed["items"] if listed else []
        ending = [each for each in found if _is_ending(each) and job_set_release.is_made_by(each, identity)]
        if len(ending) < len(found) or not found:
            return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in found]
        context.report(f"waiting until {len(found)} JobSets are gone")
        context.wait(_PAUSE_S)


def _is_ending(found: dict[str, Any]) -> bool:
    return "deletionTimestamp" in found["metadata"]


def _remove(context: Context, cluster: Cluster, paths: Iterable[str], identity: str) -> None:
    """What is the state's of these, the last one first; returns when it is gone."""
    left: list[str] = []
    for path in reversed([*paths]):
        found = cluster.find(path)
        if found and job_set_release.is_made_by(found, identity):
            context.report(f"deleting {found['kind']} {found['metadata']['name']}")
            cluster.delete(path)
            left.append(path)
    while left := [path for path in left if cluster.find(path)]:
        context.report(f"waiting until {left[0].rpartition('/')[2]} is gone")
        context.wait(_PAUSE_S)


@contextlib.contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except TargetError as error:
        raise ResourceError(str(error)) from None
