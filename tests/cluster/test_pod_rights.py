"""What a training's pods may do in a cluster, asked of its real API server: nothing; nor are they privileged."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client import ApiException

from infra.paths import TRAINING
from infra.pods.job_set import API_VERSION, manifests
from infra.pods.pod_group import Manifest, PodGroup
from tests.cluster.emulator import Emulator
from tests.cluster.jobsets import Namespace

NAME, ACCOUNT = "slipway-rights", "slipway"
# What Kubernetes lets everybody do who is known: ask who one is and what one may.
EVERYBODY = {
    "selfsubjectreviews.authentication.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
}


def declared(namespace: str) -> list[Manifest]:
    """A run of two pods, which are not made: the set is suspended."""
    group = PodGroup(
        NAME, namespace, "rights", 1, 2, "python:3.12", ACCOUNT, "gs://bucket", "0" * 16, {"nvidia.com/gpu": 8}
    )
    *others, pods = manifests(group, {"bootstrap.sh": (TRAINING / "bootstrap.sh").read_text()})
    return [*others, {**pods, "spec": {**pods["spec"], "suspend": True}}]


@pytest.fixture(scope="module")
def namespace(cluster: Emulator) -> Iterator[str]:
    """One that refuses pods with more than the baseline of Kubernetes' own standard, with the run in it."""
    name = "rights"
    cluster.kubectl("create", "namespace", name)
    cluster.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=baseline")
    made = Namespace(cluster.kubeconfig, name)
    cluster.apply(declared(name))
    yield name
    made.clear()


def test_its_account_may_do_what_everybody_may_and_nothing_else(cluster: Emulator, namespace: str) -> None:
    who = f"--as=system:serviceaccount:{namespace}:{ACCOUNT}"
    listed = cluster.kubectl("auth", "can-i", "--list", "--no-headers", f"--namespace={namespace}", who)
    may = {row.split()[0] for row in listed.splitlines()}
    assert {row for row in may if not row.startswith("[")} == EVERYBODY


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/api/v1/namespaces/{namespace}/secrets", None),
        ("GET", "/api/v1/namespaces/{namespace}/configmaps/" + NAME, None),
        ("GET", "/api/v1/namespaces/{namespace}/pods", None),
        ("GET", "/api/v1/nodes", None),
        ("POST", "/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "more"}, "spec": {"containers": []}}),
        ("POST", "/api/v1/namespaces/{namespace}/serviceaccounts/" + ACCOUNT + "/token", {"spec": {"audiences": []}}),
        ("PATCH", f"/apis/{API_VERSION}/namespaces/{{namespace}}/jobsets/{NAME}", {"spec": {"suspend": False}}),
        ("DELETE", f"/apis/{API_VERSION}/namespaces/{{namespace}}/jobsets/{NAME}", None),
    ],
    ids=["secrets", "own script", "pods", "nodes", "another pod", "a token", "its own set", "its own end"],
)
def test_what_it_asks_for_is_denied(
    cluster: Emulator, namespace: str, method: str, path: str, body: dict[str, Any] | None
) -> None:
    """With a token that was made for it: its pods have none."""
    api = client.ApiClient(_as_account(cluster, namespace))
    asked = api.param_serialize(
        method,
        path.format(namespace=namespace),
        header_params={"Content-Type": "application/merge-patch+json" if method == "PATCH" else "application/json"},
        body=body,
        auth_settings=["BearerToken"],
    )
    answer = api.call_api(*asked)
    assert answer.status == 403
    said = json.loads(answer.read())["message"]
    assert f'User "system:serviceaccount:{namespace}:{ACCOUNT}" cannot ' in said


def _as_account(cluster: Emulator, namespace: str) -> client.Configuration:
    made: Any = client.Configuration()
    untyped: Any = config
    untyped.load_kube_config(str(cluster.kubeconfig), client_configuration=made)
    made.cert_file = made.key_file = made.refresh_api_key_hook = None
    token = cluster.kubectl("create", "token", ACCOUNT, f"--namespace={namespace}").strip()
    made.api_key = {"authorization": f"Bearer {token}"}
    return made


def test_its_pods_have_no_token_and_nothing_that_is_privileged(cluster: Emulator, namespace: str) -> None:
    """As the API server makes one of the template, with all that its admission adds; one with more it refuses."""
    core: Any = client.CoreV1Api(config.new_client_from_config(str(cluster.kubeconfig)))
    *_, pods = declared(namespace)
    template = pods["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod = {"metadata": {"name": "one"}, "spec": template}
    admitted = core.create_namespaced_pod(namespace, pod, dry_run="All", field_validation="Strict")
    assert [volume.name for volume in admitted.spec.volumes] == ["start", "root", "host"]
    privileged = copy.deepcopy(pod)
    privileged["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(namespace, privileged, dry_run="All")
    assert 'violates PodSecurity "baseline:latest": privileged' in json.loads(str(refused.value.body))["message"]
