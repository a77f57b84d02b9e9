"""Target kubernetes through the real engine against the real API server: what `up` makes, changes and leaves."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.artifacts.layout import wheelhouse_key
from infra.emulators.cluster.nodes import POOL
from infra.host_software.derive import wheelhouse
from infra.paths import ROOT
from infra.pods import job_set_release
from infra.pods.cluster import Cluster
from infra.pods.pod_findings import job_set_finding
from infra.providers.job_set_installation_resource import JobSetInstallationResource
from infra.providers.resource import ResourceError
from infra.stack_file.settings import from_text
from infra.targets.kubernetes.settings import KubernetesSettings
from infra.targets.needs import Outcome
from tests.cluster import without_jobset
from tests.cluster.emulator import Emulator
from tests.cluster.jobsets import jobset
from tests.emulators.s3_server import POD, REGION, S3Server, policy
from tests.engine.clone import Clone, said
from tests.engine.project import until

STACK = "kwok-a3-mega-2"
SET = "slipway-kwok-a3-mega-2"
OURS = "--selector=slipway-stack"  # the cluster is everybody's: JobSets of other tests may be left in it
INSTALLATION = JobSetInstallationResource()


@dataclass(frozen=True)
class OwnCluster:
    """A cluster with two nodes of eight GPUs, and a clone with a stack for it."""

    cluster: Emulator
    clone: Clone
    shared: Path

    def write(self, **changes: Any) -> None:
        config = yaml.safe_load((ROOT / "stacks" / "Pulumi.eks-h100-2.yaml").read_text())
        settings = {
            "context": self.context,
            "accelerator": "a3-mega-2",
            "gpu_network": "none",  # whose Networks only GKE's clusters have
            "fit": "unchecked",  # nobody has compiled for it, and nothing trains
            "shared_path": str(self.shared),
            "exclusive_by": POOL,
            "owner": "ada@example.com",
        }
        config["config"] |= {f"slipway:{key}": value for key, value in (settings | changes).items()}
        (self.clone.directory / "stacks" / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump(config))

    @property
    def context(self) -> str:
        return str(yaml.safe_load(self.cluster.kubeconfig.read_text())["current-context"])

    def get(self, *what: str) -> list[dict[str, Any]]:
        return json.loads(self.cluster.kubectl("get", *what, "--namespace=default", "--output=json"))["items"]

    def controllers_image(self) -> str:
        found = self.cluster.kubectl("get", "--raw", job_set_release.CONTROLLER)
        return json.loads(found)["spec"]["template"]["spec"]["containers"][0]["image"]

    def uid_of_definition(self) -> str:
        return self.cluster.kubectl("get", "crd", "jobsets.jobset.x-k8s.io", "--output=jsonpath={.metadata.uid}")

    def status(self) -> dict[str, Any]:
        return self.clone.status(STACK)


def volume(path: Path) -> list[dict[str, Any]]:
    """The claim that the shipped stack names, and what it is bound to."""
    asked = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    size = {"storage": "1Ti"}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "training"},
            "spec": asked | {"capacity": size, "hostPath": {"path": str(path)}},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "training", "namespace": "default"},
            "spec": asked | {"resources": {"requests": size}},
        },
    ]


@pytest.fixture(scope="module")
def own(cluster: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnCluster]:
    work = tmp_path_factory.mktemp("own")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(cluster.kubeconfig))
        made = OwnCluster(cluster, Clone.make(work / "clone"), work / "shared")
        made.write()
        cluster.apply(volume(made.shared))
        listing = made.shared / "artifacts" / wheelhouse_key(_wheelhouse(made))
        listing.parent.mkdir(parents=True)
        listing.touch()  # nothing of it is ever installed: the nodes are pretended
        yield made


def _wheelhouse(own: OwnCluster) -> str:
    text = (own.clone.directory / "stacks" / f"Pulumi.{STACK}.yaml").read_text()
    settings = from_text(STACK, text)
    assert isinstance(settings, KubernetesSettings)
    return wheelhouse(settings, settings.row.platform).id


def test_a_run_in_a_cluster_from_nothing_to_nothing(own: OwnCluster) -> None:
    """One life: previewed, made, unchanged, looked at, stopped, started, changed, taken away, where JobSet is."""
    clone = own.clone
    own.write(install_jobset=True)
    there_before = own.uid_of_definition()
    first = clone.pulumi("preview", STACK, "--color", "never")
    assert first.returncode == 0, said(first)
    assert f"cluster {own.context}, namespace default: 2 pods of python:3.12, 8 nvidia.com/gpu each" in said(first)
    assert own.get("jobsets", OURS) == [], "a preview makes nothing"

    assert (up := clone.pulumi("up", STACK)).returncode == 0, said(up)
    (made,) = own.get("jobsets", OURS)
    labels = made["metadata"]["labels"]
    assert (labels["slipway-owner"], labels["slipway-stack"]) == ("ada-example-com", STACK)
    until(lambda: own.cluster.pods_that_run() == 2, "both pods run")
    status = own.status()
    assert status["phase"] == "training"
    hosts = status["hosts"]
    assert sorted(host["node"] for host in hosts) == [f"gke-slipway-a3-mega-2-0-{i}" for i in range(2)]
    again = clone.pulumi("preview", STACK, "--expect-no-changes", "--diff", "--color", "never")
    assert again.returncode == 0, said(again)

    assert (stopped := clone.run("slipway", "stop", STACK)).returncode == 0, said(stopped)
    assert {host["reason"] for host in own.status()["hosts"]} == {"is suspended"}
    assert (started := clone.run("slipway", "start", STACK)).returncode == 0, said(started)
    until(lambda: own.cluster.pods_that_run() == 2, "both pods run again")

    own.write(install_jobset=True, steps=2000)
    before = {node["metadata"]["name"]: node["metadata"]["uid"] for node in own.get("nodes")}
    assert (changed := clone.pulumi("up", STACK)).returncode == 0, said(changed)
    (now,) = own.get("jobsets", OURS)
    assert now["metadata"]["uid"] != made["metadata"]["uid"], "what JobSet cannot change is made anew"
    assert before == {node["metadata"]["name"]: node["metadata"]["uid"] for node in own.get("nodes")}

    assert (gone := clone.pulumi("destroy", STACK)).returncode == 0, said(gone)
    assert own.get("jobsets", OURS) == own.get("pods") == []
    kept = own.get("serviceaccounts,configmaps", "--selector=slipway-stack")
    assert kept == []
    assert own.uid_of_definition() == there_before, "what was there before stays"


def test_what_the_cluster_has_no_room_for_waits_with_the_schedulers_reason(own: OwnCluster) -> None:
    own.write(accelerator="a3-mega-4")
    assert (up := own.clone.pulumi("up", STACK)).returncode == 0, said(up)
    wanted = "Insufficient nvidia.com/gpu"
    until(lambda: any(wanted in host["reason"] for host in own.status()["hosts"]), "the scheduler's reason")
    assert (gone := own.clone.pulumi("destroy", STACK)).returncode == 0, said(gone)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"context": "nowhere"}, "nowhere"),
        ({"namespace": "absent"}, 'namespaces "absent" not found'),
        (
            {"pull_secrets": ["registry"]},
            "namespace default has no Secret registry: kubectl create secret docker-registry registry",
        ),
    ],
)
def test_what_the_cluster_would_refuse_is_said_by_a_preview(
    own: OwnCluster, changes: dict[str, Any], sentence: str
) -> None:
    own.write(**changes)
    refused = own.clone.pulumi("preview", STACK, "--color", "never")
    assert refused.returncode != 0
    assert sentence in said(refused), said(refused)
    assert "Traceback" not in said(refused)


@pytest.mark.sample(0)
def test_jobset_is_installed_only_where_that_is_allowed_and_goes_with_the_stack(own: OwnCluster) -> None:
    every = [job_set_release.path(each) for each in without_jobset.released()]
    with without_jobset.taken_out(own.cluster):
        own.write()
        refused = own.clone.pulumi("preview", STACK, "--color", "never")
        assert refused.returncode != 0
        assert "has no JobSet; write `slipway:install_jobset: true`, and `up` installs v0.10.1" in said(refused)
        assert job_set_release.BY_HAND in said(refused)

        own.write(install_jobset=True, jobset_manifests=str(without_jobset.published()))
        planned = own.clone.pulumi("preview", STACK, "--color", "never")
        assert planned.returncode == 0, said(planned)
        assert without_jobset.there(own.cluster) == [], "a preview makes nothing"
        assert (up := own.clone.pulumi("up", STACK)).returncode == 0, said(up)
        assert sorted(without_jobset.there(own.cluster)) == sorted(every)
        assert [each["metadata"]["labels"]["slipway-stack"] for each in own.get("jobsets")] == [STACK]
        assert own.controllers_image() == job_set_release.IMAGE, "what is published names one that is deleted by now"
        again = own.clone.pulumi("preview", STACK, "--expect-no-changes", "--diff", "--color", "never")
        assert again.returncode == 0, said(again)
        (state,) = (each for each in own.clone.resources(STACK) if each["type"].endswith(":JobSetInstallation"))
        kubeconfig = json.dumps(yaml.safe_load(own.cluster.kubeconfig.read_text()))
        outputs = state["outputs"] | {"kubeconfig": kubeconfig}  # the library reads KUBECONFIG once, at its import
        _others_keep_it(own, outputs)
        _a_killed_up_goes_on(own, outputs)

        assert (gone := own.clone.pulumi("destroy", STACK)).returncode == 0, said(gone)
        assert without_jobset.there(own.cluster) == []
        _half_of_one_is_nobodys(own, outputs)


def _others_keep_it(own: OwnCluster, outputs: dict[str, Any]) -> None:
    theirs = jobset("theirs", slices=1, hosts=1)
    own.cluster.apply([theirs | {"metadata": {"name": "theirs", "namespace": "default"}}])
    INSTALLATION.delete(without_jobset.asked(lines := []), "", outputs)
    assert lines == [f"JobSet stays in the cluster: JobSets are there (default/{SET}, default/theirs)"]
    own.cluster.kubectl("delete", "jobset", "theirs", "--namespace=default")
    other = INSTALLATION.parse(outputs | {"identity": "of-another"})
    found = INSTALLATION.create(without_jobset.asked([]), other)[1]
    assert found == {"made": False, "installed": job_set_release.VERSION, "objects": [], "lacks": [], "ready": True}
    INSTALLATION.delete(without_jobset.asked([]), "", outputs | found)
    assert len(without_jobset.there(own.cluster)) == len(without_jobset.released())
    newer = INSTALLATION.parse(outputs | {"identity": "of-another", "fields": ["spec.network.newer"]})
    with pytest.raises(ResourceError, match=r"its JobSet v0\.10\.1 does not know spec\.network\.newer; "):
        INSTALLATION.create(without_jobset.asked([]), newer)


def _a_killed_up_goes_on(own: OwnCluster, outputs: dict[str, Any]) -> None:
    """So does one after somebody has taken a part away, which a refresh says."""
    own.cluster.kubectl("delete", "service", "jobset-webhook-service", "--namespace=jobset-system")
    lacking = INSTALLATION.read(without_jobset.asked([]), "", outputs)
    assert lacking and [path.rpartition("/")[2] for path in lacking["lacks"]] == ["jobset-webhook-service"]
    assert INSTALLATION.drift(outputs | lacking) == ["lacks"]
    assert INSTALLATION.drift(outputs | {"ready": False}) == ["ready"], "nobody has waited for it to the end"
    made = INSTALLATION.update(without_jobset.asked([]), "", outputs | lacking, INSTALLATION.parse(outputs))
    assert made["made"] and made["objects"] == outputs["objects"]
    assert len(without_jobset.there(own.cluster)) == len(without_jobset.released())


def _half_of_one_is_nobodys(own: OwnCluster, outputs: dict[str, Any]) -> None:
    own.cluster.kubectl("create", "clusterrole", "jobset-metrics-reader", "--verb=get", "--resource=pods")
    with pytest.raises(
        ResourceError, match="has no JobSet, but of one that was there ClusterRole jobset-metrics-reader"
    ):
        INSTALLATION.create(without_jobset.asked([]), INSTALLATION.parse(outputs))
    own.cluster.kubectl("delete", "clusterrole", "jobset-metrics-reader")
    cluster = Cluster(own.context, json.loads(outputs["kubeconfig"]))
    brought, absent = (job_set_finding(cluster, "default", installs) for installs in (True, False))
    assert (brought.verdict, absent.verdict) == (Outcome.OK, Outcome.WRONG)
    assert without_jobset.there(own.cluster) == []


@pytest.fixture
def s3(own: OwnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """With a bucket that the operator may write and a pod may read, whose keys the cluster has as a secret."""
    key, secret = POD
    own.cluster.kubectl(
        *("create", "secret", "generic", "aws", f"--from-literal=id={key}", f"--from-literal=secret={secret}")
    )
    with S3Server(tmp_path / "s3") as server:
        server.make_pod_account()
        server.make_bucket("bucket")
        server.client().put_bucket_policy(Bucket="bucket", Policy=policy("bucket", "s3:GetObject"))
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server
    own.cluster.kubectl("delete", "secret", "aws")


def as_in_the_pod(own: OwnCluster, place: Path) -> subprocess.CompletedProcess[str]:
    """What the pods' container runs, here: its script, its variables and no others."""
    (job_set,), (script,) = own.get("jobsets", OURS), own.get("configmaps", "--selector=slipway-stack")
    (container,) = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    for one in container["env"]:
        if reference := one.get("valueFrom", {}).get("secretKeyRef"):
            (found,) = [each for each in own.get("secrets") if each["metadata"]["name"] == reference["name"]]
            variables[one["name"]] = base64.b64decode(found["data"][reference["key"]]).decode()
    variables |= {"SLIPWAY_ROOT": str(place / "root"), "SLIPWAY_HOST_DIR": str(place / "host")}
    for name, text in script["data"].items():
        (place / name).write_text(text)
    command = ["bash", str(place / Path(container["command"][1]).name)]
    return subprocess.run(
        command, env={"PATH": os.environ["PATH"]} | variables, capture_output=True, text=True, check=False
    )


@pytest.mark.sample(0)
def test_pods_read_in_s3_what_up_has_pushed_there(own: OwnCluster, s3: S3Server, tmp_path: Path) -> None:
    """The bundle is there, whole. Of wheels there is a list alone, for the real ones have gigabytes."""
    secrets = {"AWS_ACCESS_KEY_ID": "aws/id", "AWS_SECRET_ACCESS_KEY": "aws/secret"}
    in_s3 = {"artifacts": "s3://bucket/slipway", "s3_region": REGION, "secret_variables": secrets}
    own.write(**in_s3, s3_endpoint="https://minio.example.com")
    elsewhere = own.clone.pulumi("preview", STACK, "--color", "never")
    assert f"s3_endpoint is https://minio.example.com, but this machine would ask {s3.url}; run" in said(elsewhere)

    own.write(**in_s3, s3_endpoint=s3.url)
    listing = s3.buckets / "bucket" / "slipway" / wheelhouse_key(_wheelhouse(own))
    listing.parent.mkdir(parents=True)
    listing.touch()
    doctor = own.clone.run("slipway", "doctor", STACK)
    assert "s3://bucket/slipway is there" in said(doctor), said(doctor)
    assert (up := own.clone.pulumi("up", STACK, "--color", "never")).returncode == 0, said(up)
    assert f"pods read s3://bucket/slipway ({s3.url}) with the keys of secret aws" in said(up)

    place = tmp_path / "pod"
    place.mkdir()
    started = as_in_the_pod(own, place)
    (bundle,) = (place / "root" / "bundles").iterdir()
    assert (bundle / "training" / "s3_objects.py").is_file(), started.stderr
    assert "has files that bundle" not in started.stderr and "s3://" not in started.stderr

    assert (gone := own.clone.pulumi("destroy", STACK)).returncode == 0, said(gone)
    assert [path for path in (s3.buckets / "bucket" / "slipway" / "uses").rglob("*") if path.is_file()] == []
