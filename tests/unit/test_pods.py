"""What a cluster is told of a run's pods, and what is said of pods that do not run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from infra.pods.job_set import bundle_of, job_set, manifests
from infra.pods.pod_group import JobKind, PodGroup, PodGroupError
from infra.pods.pod_view import phase_of, refused, why_no_pods
from infra.targets.phases import BOOTING, LOST
from training.host_status import Phase
from training.hosts import Host, who_am_i

TWO = PodGroup(
    name="slipway-two",
    namespace="team",
    stack="two",
    slices=2,
    hosts_per_slice=4,
    image="python:3.12",
    account="slipway",
    artifacts="/mnt/training/artifacts",
    bundle="0123456789abcdef",
    resources={"google.com/tpu": 4},
    labels={"slipway-stack": "two"},
)
SCRIPTS = {"bootstrap.sh": "true"}


def container(found: dict[str, Any]) -> dict[str, Any]:
    return found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]


def variables(found: dict[str, Any], job: int, pod: int) -> dict[str, str]:
    """As the container of one pod has them."""
    said = {one["name"]: one["value"] for one in container(found)["env"] if "value" in one}
    assert [one["name"] for one in container(found)["env"] if "value" not in one] == ["JOB_INDEX"]
    return said | {"JOB_INDEX": str(job), "JOB_COMPLETION_INDEX": str(pod)}


def test_every_pod_knows_its_rank_and_all_name_one_coordinator() -> None:
    found = job_set(TWO, SCRIPTS)
    hosts = [who_am_i(variables(found, job, pod), lambda _: None) for job in range(2) for pod in range(4)]
    assert [host.index for host in hosts] == list(range(8))
    assert {(host.count, host.coordinator) for host in hosts} == {(8, "slipway-two-slice-0-0.slipway-two:6002")}


def test_without_jobset_each_slice_is_a_job_and_a_service_gives_names() -> None:
    *_, service, first, second = manifests(replace(TWO, kind=JobKind.JOB), SCRIPTS)
    assert (service["kind"], service["metadata"]["name"], service["spec"]["clusterIP"]) == ("Service", TWO.name, "None")
    hosts: list[Host] = []
    for job in (first, second):
        assert bundle_of(job) == TWO.bundle
        pods = job["spec"]["template"]["spec"]
        assert pods["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
        said = {one["name"]: one["value"] for one in pods["containers"][0]["env"]}
        hosts += [who_am_i(said | {"JOB_COMPLETION_INDEX": str(pod)}, lambda _: None) for pod in range(4)]
    assert [host.index for host in hosts] == list(range(8))
    assert {host.coordinator for host in hosts} == {f"{first['metadata']['name']}-0.{TWO.name}:6002"}
    actions = [rule["action"] for rule in first["spec"]["podFailurePolicy"]["rules"]]
    assert actions == ["FailJob", "Ignore", "Ignore"], "only what ends by itself is counted"


def test_nothing_in_a_pod_is_privileged_and_it_has_no_token() -> None:
    account, _, found = manifests(TWO, SCRIPTS)
    pod = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert account["automountServiceAccountToken"] is pod["automountServiceAccountToken"] is False
    assert "hostNetwork" not in pod and "hostPath" not in str(pod["volumes"])
    allowed = container(found)["securityContext"]
    assert allowed == {"privileged": False, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_a_user_that_the_image_does_not_know_has_a_home_and_a_name() -> None:
    found = job_set(replace(TWO, run_as=1000), SCRIPTS)
    pod = found["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "seccompProfile": {"type": "RuntimeDefault"},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
    }
    said = variables(found, job=0, pod=0)
    assert said["HOME"] == said["SLIPWAY_HOST_DIR"] and said["USER"]
    assert not {"HOME", "USER"} & variables(job_set(TWO, SCRIPTS), job=0, pod=0).keys()


def test_another_bundle_or_script_is_another_pod() -> None:
    found = job_set(TWO, SCRIPTS)
    assert bundle_of(found) == TWO.bundle
    assert container(job_set(replace(TWO, bundle="fedcba9876543210"), SCRIPTS)) != container(found)
    assert container(job_set(TWO, SCRIPTS | {"bootstrap.sh": "false"})) != container(found)


@pytest.mark.parametrize(
    ("message", "action"),
    [
        ("Container train for pod team/x failed with exit code 2 matching FailJob rule at index 0", "FailJobSet"),
        ("Container train for pod team/x failed with exit code 3 matching FailJob rule at index 0", "FailJobSet"),
        (
            "Container train for pod team/x failed with exit code 75 matching FailJob rule at index 2",
            "RestartJobSetAndIgnoreMaxRestarts",
        ),
        (
            "Pod team/x has condition DisruptionTarget matching FailJob rule at index 1",
            "RestartJobSetAndIgnoreMaxRestarts",
        ),
    ],
)
def test_what_follows_of_an_end_that_the_job_has_a_rule_for(message: str, action: str) -> None:
    """The sentences are those of kubernetes/pkg/controller/job/pod_failure_policy.go."""
    rules = job_set(TWO, SCRIPTS)["spec"]["failurePolicy"]["rules"]
    first = next(
        rule
        for rule in rules
        if all(re.search(pattern, message) for pattern in rule.get("onJobFailureMessagePatterns", []))
    )
    assert first["action"] == action
    assert all(rule["onJobFailureReasons"] == ["PodFailurePolicy"] for rule in rules), "an error is counted"


def test_a_name_is_as_long_as_kubernetes_lets_it_be() -> None:
    longest = replace(TWO, name="a" * (63 - len("-slice-1-3-abcde")))
    assert len(longest.longest_pod) == 63
    manifests(longest, SCRIPTS)
    with pytest.raises(PodGroupError, match=r"would have 64 characters, Kubernetes allows 63; shorten .* by 1"):
        manifests(replace(longest, name=longest.name + "a"), SCRIPTS)
    with pytest.raises(PodGroupError, match="by 2"):
        manifests(replace(longest, slices=200), SCRIPTS)


def pod(phase: str, *conditions: dict[str, str], **container_state: Any) -> dict[str, Any]:
    statuses = [{"name": "train", "state": container_state}] if container_state else []
    return {"status": {"phase": phase, "conditions": list(conditions), "containerStatuses": statuses}}


def beside(started: bool = True, **container_state: Any) -> dict[str, Any]:
    """A pod whose training waits for another container, which is in this state."""
    found = pod("Pending", waiting={"reason": "PodInitializing"})
    daemon = {"name": "tcpxo-daemon", "state": container_state, "started": started}
    found["status"]["initContainerStatuses"] = [daemon]
    return found


SCHEDULED = {"type": "PodScheduled", "status": "False"}


@pytest.mark.parametrize(
    ("found", "phase", "why"),
    [
        (
            pod(
                "Pending",
                SCHEDULED
                | {"reason": "Unschedulable", "message": "0/9 nodes are available: 9 Insufficient google.com/tpu."},
            ),
            BOOTING,
            "no node has room for it: 0/9 nodes are available: 9 Insufficient google.com/tpu.",
        ),
        (pod("Pending", SCHEDULED | {"reason": "SchedulingGated"}), BOOTING, "its queue holds it back"),
        (
            pod("Pending", waiting={"reason": "ImagePullBackOff", "message": 'Back-off pulling image "x"'}),
            BOOTING,
            'its image cannot be pulled: Back-off pulling image "x"',
        ),
        (
            pod("Pending", waiting={"reason": "CreateContainerConfigError", "message": 'secret "wandb" not found'}),
            BOOTING,
            'CreateContainerConfigError: secret "wandb" not found',
        ),
        (pod("Pending", waiting={"reason": "ContainerCreating"}), BOOTING, "its node starts it"),
        (
            beside(waiting={"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}),
            BOOTING,
            "tcpxo-daemon beside it: CrashLoopBackOff: back-off 5m0s restarting failed container",
        ),
        (
            beside(started=False, running={}),
            BOOTING,
            "waits for tcpxo-daemon beside it, which is not ready yet",
        ),
        (beside(running={}), BOOTING, "its node starts it"),
        (pod("Running", running={"startedAt": "2026-11-26T10:00:00Z"}), Phase.TRAINING, ""),
        (pod("Succeeded"), Phase.FINISHED, ""),
        (pod("Failed", terminated={"exitCode": 2}), Phase.FAILED, "ended with exit code 2"),
        (
            pod("Failed", {"type": "DisruptionTarget", "status": "True", "message": "Taint manager: deleting"}),
            LOST,
            "the cluster took it away: Taint manager: deleting",
        ),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, Phase.FAILED, "Evicted"),
    ],
)
def test_a_pod_says_in_one_line_why_it_does_not_run(found: dict[str, Any], phase: str, why: str) -> None:
    assert phase_of(found) == (phase, why)


def test_why_a_set_has_no_pods() -> None:
    queued = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "research"}}, "spec": {"suspend": True}}
    assert why_no_pods(queued, [], []) == "waits in queue research"
    assert why_no_pods({"metadata": {}, "spec": {"suspend": True}}, [], []) == "is suspended"
    running: dict[str, Any] = {"metadata": {}, "spec": {}}
    message = (
        'Error creating: pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=8, '
        "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=4"
    )
    event = {"reason": "FailedCreate", "message": message}
    assert why_no_pods(running, [{}], [event]) == (
        "the namespace's quota gpus has no room: it wants requests.nvidia.com/gpu=8, used requests.nvidia.com/gpu=0, "
        "limit requests.nvidia.com/gpu=4"
    )
    assert why_no_pods(running, [{}], []) == "its pods are not made yet"
    assert refused('admission webhook "images.example" denied the request: no tags') == (
        "admission was refused by images.example: no tags"
    )
