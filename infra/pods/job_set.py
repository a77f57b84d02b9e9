"""A group as manifests: a service account that may do nothing, the script that pods start with, a JobSet or jobs.

Pure, and training has no privilege: no image is built, since a stock image of Python runs `bootstrap.sh`, which takes
wheels and bundle from the artifact store as hosts of every target do. Owns what JobSet (v1alpha2) and the batch API
(v1) are told. Refuses to own who applies it. Not run on real hardware.

A pod says its rank by what Kubernetes tells it (training/hosts.py, row "jobset"): the index of its job, which is its
slice's, and its index in the job.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping

from infra.pods.pod_group import SLICE, JobKind, Manifest, PodGroup, check_name
from training.exit_codes import ExitCode

API_VERSION = "jobset.x-k8s.io/v1alpha2"
CONTAINER = "train"
SLICE_LABEL = "slipway-slice"  # of a pod without a JobSet
_EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_QUEUE = "kueue.x-k8s.io/queue-name"
_SCRIPT = "/slipway/start"  # where the configuration map is mounted
_ROOT = "/slipway/root"  # bundles and environments: as long as the pod lives
_HOST = "/slipway/host"
_NOBODYS = {"HOME": _HOST, "USER": "slipway"}  # a user that the image does not know has neither
_SAVES_S = 600  # time to save a checkpoint once it is told to end; a spot node gives less, whatever is asked for
# What ends a run for good, and what the cluster has taken: as the job's failure message spells it, which names an exit
# code only where a container ended by itself (kubernetes/pkg/controller/job/pod_failure_policy.go).
_HOPELESS = (ExitCode.BAD_INPUT, ExitCode.REPEATED)


def manifests(group: PodGroup, scripts: Mapping[str, str]) -> list[Manifest]:
    """In the order in which they are made. scripts: texts by name, bootstrap.sh among them. Raises PodGroupError."""
    check_name(group)
    made = [_account(group), _script(group, scripts)]
    if group.kind is JobKind.JOB:
        return [*made, _service(group), *(_alone(group, number, _hash(scripts)) for number in range(group.slices))]
    return [*made, job_set(group, scripts)]


def job_set(group: PodGroup, scripts: Mapping[str, str]) -> Manifest:
    annotations = {_EXCLUSIVE: group.exclusive_by} if group.exclusive_by else {}
    queue = {_QUEUE: group.queue} if group.queue else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "JobSet",
        "metadata": _metadata(group, group.name, queue, annotations),
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": group.name},
            "failurePolicy": _failure_policy(group),
            "replicatedJobs": [
                {"name": SLICE, "replicas": group.slices, "template": _job(group, _hash(scripts))},
            ],
        },
    }


def _failure_policy(group: PodGroup) -> Manifest:
    """The first rule that matches counts; what none matches starts the set again, `restarts` times."""
    codes = "|".join(str(int(code)) for code in _HOPELESS)
    return {
        "maxRestarts": group.restarts,
        "rules": [
            {
                "name": "hopeless",
                "action": "FailJobSet",
                "onJobFailureReasons": ["PodFailurePolicy"],
                "onJobFailureMessagePatterns": [rf"exit code ({codes})\b"],
            },
            {
                "name": "taken",
                "action": "RestartJobSetAndIgnoreMaxRestarts",
                "onJobFailureReasons": ["PodFailurePolicy"],
            },
        ],
    }


def _pod_failure_policy(taken: str) -> Manifest:
    """taken: what follows where the cluster took a pod away, or told it to stop."""
    exits: Manifest = {"containerName": CONTAINER, "operator": "In"}
    return {
        "rules": [
            {"action": "FailJob", "onExitCodes": exits | {"values": [int(code) for code in _HOPELESS]}},
            {"action": taken, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": taken, "onExitCodes": exits | {"values": [int(ExitCode.INTERRUPTED)]}},
        ]
    }


def _job(group: PodGroup, script: str) -> Manifest:
    return {
        "metadata": {"labels": _labels(group)},
        "spec": {
            "parallelism": group.hosts_per_slice,
            "completions": group.hosts_per_slice,
            "completionMode": "Indexed",
            "backoffLimit": 0,  # a run needs all its hosts: what starts again is the set, together
            "podFailurePolicy": _pod_failure_policy("FailJob"),
            "template": {"metadata": _of_pods(group), "spec": _pod(group, script)},
        },
    }


def _of_pods(group: PodGroup) -> Manifest:
    annotations = dict(group.beside.annotations)
    return {"labels": _labels(group)} | ({"annotations": annotations} if annotations else {})


def _alone(group: PodGroup, number: int, script: str) -> Manifest:
    """A slice's job without a JobSet. Its pods start again one by one, and meet as hosts of every target do.

    What ends a host ends the others by their own word, so all of them fail: each of `restarts` counts once for each.
    """
    job = _job(group, script)
    job["spec"] |= {
        "backoffLimit": group.restarts * group.hosts_per_slice,
        "podFailurePolicy": _pod_failure_policy("Ignore"),
    }
    template = job["spec"]["template"]
    template["metadata"]["labels"] = _labels(group) | {SLICE_LABEL: str(number)}
    template["spec"]["subdomain"] = group.name
    if group.slice_labels:
        template["spec"]["nodeSelector"] |= group.slice_labels[number]
    (container,) = template["spec"]["containers"]
    container["env"] = [one for one in container["env"] if one["name"] != "JOB_INDEX"]
    container["env"].append({"name": "JOB_INDEX", "value": str(number)})
    queue = {_QUEUE: group.queue} if group.queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(group, group.job(number), queue),
        "spec": job["spec"],
    }


def _service(group: PodGroup) -> Manifest:
    """Gives pods their names; a JobSet makes its own."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(group, group.name),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": _labels(group)},
    }


def _pod(group: PodGroup, script: str) -> Manifest:
    volumes: list[Manifest] = [
        {"name": "start", "configMap": {"name": group.name}},
        {"name": "root", "emptyDir": {}},
        {"name": "host", "emptyDir": {}},
    ]
    mounts: list[Manifest] = [
        {"name": "start", "mountPath": _SCRIPT, "readOnly": True},
        {"name": "root", "mountPath": _ROOT},
        {"name": "host", "mountPath": _HOST},
    ]
    for number, (path, claim) in enumerate(sorted(group.mounts.items())):
        volumes.append({"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": f"claim-{number}", "mountPath": path})
    beside = copy.deepcopy(group.beside)
    volumes += [dict(each) for each in beside.volumes]
    mounts += [dict(each) for each in beside.mounts]
    resources = {name: str(count) for name, count in group.resources.items()}
    pod: Manifest = {
        "restartPolicy": "Never",
        "serviceAccountName": group.account,
        "automountServiceAccountToken": False,  # training asks the API server nothing
        "terminationGracePeriodSeconds": _SAVES_S,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}} | _user(group),
        "nodeSelector": dict(group.node_labels),
        "tolerations": [dict(one) for one in group.tolerations],
        "volumes": volumes,
        "containers": [
            {
                "name": CONTAINER,
                "image": group.image,
                "command": ["bash", f"{_SCRIPT}/bootstrap.sh"],
                "env": environment(group, script),
                "resources": {"requests": resources, "limits": resources},
                "securityContext": {
                    "privileged": False,
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": mounts,
            }
        ],
    }
    if beside.sidecars:
        pod["initContainers"] = [dict(each) for each in beside.sidecars]
    if group.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in group.pull_secrets]
    if group.priority:
        pod["priorityClassName"] = group.priority
    return pod


def _user(group: PodGroup) -> Manifest:
    """No group of volumes is among it: Kubernetes would give that all files of a claim, which others use too."""
    number = group.run_as
    return {"runAsNonRoot": True, "runAsUser": number, "runAsGroup": number} if number else {}


def environment(group: PodGroup, script: str) -> list[Manifest]:
    """A changed script or bundle is another pod, so the set is made anew with it."""
    plain = {
        "SLIPWAY_STACK": group.stack,
        "SLIPWAY_ARTIFACTS": group.artifacts,
        "SLIPWAY_BUNDLE": group.bundle,
        "SLIPWAY_SCRIPT": script,
        "SLIPWAY_ROOT": _ROOT,
        "SLIPWAY_HOST_DIR": _HOST,
        "JOBSET_NAME": group.name,
        "REPLICATED_JOB_NAME": SLICE,
        "PROCESSES_IN_JOB": str(group.hosts_per_slice),
        "JAX_PROCESS_COUNT": str(group.hosts),
        "JAX_COORDINATOR_ADDRESS": group.coordinator,
        **(_NOBODYS if group.run_as else {}),
        **group.environment,
    }
    said: list[Manifest] = [{"name": name, "value": value} for name, value in plain.items()]
    index = "metadata.annotations['jobset.sigs.k8s.io/job-index']"
    said.append({"name": "JOB_INDEX", "valueFrom": {"fieldRef": {"fieldPath": index}}})
    for name, secret in sorted(group.secrets.items()):
        holder, _, key = secret.partition("/")
        said.append({"name": name, "valueFrom": {"secretKeyRef": {"name": holder, "key": key}}})
    return said


def _account(group: PodGroup) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(group, group.account, annotations=dict(group.account_annotations)),
        "automountServiceAccountToken": False,
    }


def _script(group: PodGroup, scripts: Mapping[str, str]) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(group, group.name),
        "data": dict(scripts),
    }


def _metadata(
    group: PodGroup, name: str, labels: Manifest | None = None, annotations: Manifest | None = None
) -> Manifest:
    made: Manifest = {"name": name, "namespace": group.namespace, "labels": _labels(group) | (labels or {})}
    return made | ({"annotations": annotations} if annotations else {})


def _labels(group: PodGroup) -> dict[str, str]:
    return dict(group.labels)


def _hash(scripts: Mapping[str, str]) -> str:
    return hashlib.sha256("\0".join(scripts[name] for name in sorted(scripts)).encode()).hexdigest()[:16]


def bundle_of(found: Manifest) -> str:
    """The bundle that the pods of a JobSet or job install; empty where it is none of ours."""
    jobs = [job["template"] for job in found["spec"]["replicatedJobs"]] if found["kind"] == "JobSet" else [found]
    for job in jobs:
        for container in job["spec"]["template"]["spec"]["containers"]:
            for variable in container.get("env", []):
                if variable["name"] == "SLIPWAY_BUNDLE":
                    return str(variable.get("value", ""))
    return ""
