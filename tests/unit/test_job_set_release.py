"""JobSet's release: what it is known by, how it is applied, and which JobSet lacks what we use."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from infra.names import STATE_LABEL
from infra.paths import ROOT
from infra.pods import job_set_release
from infra.pods.job_set import job_set
from infra.pods.job_set_release import ReleaseError
from infra.pods.pod_group import Manifest
from tests.unit.test_pods import TWO

NAMESPACE: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "jobset-system"}}


def controller(image: str) -> Manifest:
    pod = {"spec": {"containers": [{"name": "manager", "image": image, "args": ["--config=/c"]}]}}
    metadata = {"name": "jobset-controller-manager", "namespace": "jobset-system"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"template": pod}}


def definition(*rules: str, served: str = "v1alpha2") -> Manifest:
    """Of a JobSet whose rules of failure have these fields."""

    def fields(**known: Any) -> dict[str, Any]:
        return {"properties": known}

    policy = fields(maxRestarts={}, rules={"items": fields(**{each: {} for each in ("action", "name", *rules)})})
    network = fields(enableDNSHostnames={}, publishNotReadyAddresses={}, subdomain={})
    jobs = {"items": fields(name={}, replicas={}, template={})}
    spec = fields(failurePolicy=policy, network=network, replicatedJobs=jobs)
    return {"spec": {"versions": [{"name": served, "schema": {"openAPIV3Schema": fields(spec=spec)}}]}}


def test_it_is_the_version_that_the_emulated_clusters_controller_has() -> None:
    modules = (ROOT / "tools" / "cluster" / "control-plane" / "go.mod").read_text()
    assert re.findall(r"sigs\.k8s\.io/jobset (\S+)", modules) == [job_set_release.VERSION]


def test_it_is_known_by_its_content_whatever_wrote_the_file_and_whichever_registry_it_names() -> None:
    published = [NAMESPACE, controller("us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset:v0.10.1")]
    otherwise = [controller("registry.k8s.io/jobset/jobset:v0.10.1"), json.loads(json.dumps(NAMESPACE))]
    assert job_set_release.content(published) == job_set_release.content(otherwise)
    changed = controller("registry.k8s.io/jobset/jobset:v0.10.1")
    changed["spec"]["template"]["spec"]["containers"][0]["args"] = ["--config=/other"]
    assert job_set_release.content([NAMESPACE, changed]) != job_set_release.content(published)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (yaml.safe_dump_all([NAMESPACE]), f"a.yaml is not JobSet {job_set_release.VERSION}: its content is "),
        ("", f"a.yaml is not JobSet {job_set_release.VERSION}: "),
        ("<html>: [", "a.yaml is no file of manifests"),
        ("a proxy's page", "a.yaml is no file of manifests"),
    ],
)
def test_what_is_not_the_release_is_refused_with_where_it_is(text: str, sentence: str) -> None:
    with pytest.raises(ReleaseError) as refused:
        job_set_release.manifests_in(text, "a.yaml")
    assert sentence in str(refused.value) and job_set_release.URL in str(refused.value)


def test_what_is_applied_names_the_image_that_runs_and_the_state_that_made_it() -> None:
    published = [NAMESPACE, controller("us-central1-docker.pkg.dev/k8s-staging-images/jobset/jobset:v0.10.1")]
    namespace, deployment = job_set_release.prepared(published, "mirror.example.com/jobset:v0.10.1", "ada-1")
    assert namespace["metadata"]["labels"] == deployment["metadata"]["labels"] == {STATE_LABEL: "ada-1"}
    assert job_set_release.installed_version(deployment) == "v0.10.1"
    assert job_set_release.is_made_by(deployment, "ada-1") and not job_set_release.is_made_by(deployment, "ada-2")
    assert "labels" not in published[0]["metadata"], "the published ones are as they were"


def test_where_an_object_is_in_the_api() -> None:
    assert job_set_release.path(NAMESPACE) == "/api/v1/namespaces/jobset-system"
    assert job_set_release.path(controller("")) == job_set_release.CONTROLLER


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("registry.k8s.io/jobset/jobset:v0.8.2", "v0.8.2"),
        ("registry.example.com:5000/jobset", ""),
        ("registry.k8s.io/jobset/jobset:v0.8.2@sha256:0123", "v0.8.2"),
    ],
)
def test_the_version_that_is_there_is_what_its_image_is_tagged_with(image: str, version: str) -> None:
    assert job_set_release.installed_version(controller(image)) == version


def test_a_jobset_that_knows_what_we_use_is_used_and_an_older_one_is_refused_by_the_field() -> None:
    """v0.9.1 has no patterns of messages (its changelog: new in 0.10), by which hopeless ends are told."""
    used = job_set_release.used_fields(job_set(TWO, {"bootstrap.sh": "true"}))
    assert "spec.replicatedJobs.template" in used and not any("containers" in each for each in used)
    new = definition("onJobFailureReasons", "onJobFailureMessagePatterns", "somethingNewer")
    assert job_set_release.too_old(new, None, used) == ""
    old = job_set_release.too_old(definition("onJobFailureReasons"), controller("jobset:v0.9.1"), used)
    assert old.startswith("its JobSet v0.9.1 does not know spec.failurePolicy.rules.onJobFailureMessagePatterns; ")
    assert f"{job_set_release.VERSION} or newer" in old and "`slipway:job_kind: job`" in old
    other = job_set_release.unknown_fields(definition("onJobFailureReasons", served="v1beta1"), used)
    assert other == used, "of another version of the API nothing is known"
