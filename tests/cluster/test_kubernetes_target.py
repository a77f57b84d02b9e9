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
from infra.stack_file.settings import from_text
from infra.targets.kubernetes.settings import KubernetesSettings
from tests.cluster.emulator import Emulator
from tests.emulators.s3_server import POD, REGION, S3Server, policy
from tests.engine.clone import Clone, said
from tests.engine.project import until

STACK = "kwok-a3-mega-2"
SET = "slipway-kwok-a3-mega-2"


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
    """One life: previewed, made, unchanged, looked at, stopped, started, changed, taken away."""
    clone = own.clone
    own.write()
    first = clone.pulumi("preview", STACK, "--color", "never")
    assert first.returncode == 0, said(first)
    assert f"cluster {own.context}, namespace default: 2 pods of python:3.12, 8 nvidia.com/gpu each" in said(first)
    assert own.get("jobsets") == [], "a preview makes nothing"

    assert (up := clone.pulumi("up", STACK)).returncode == 0, said(up)
    (made,) = own.get("jobsets")
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

    own.write(steps=2000)
    before = {node["metadata"]["name"]: node["metadata"]["uid"] for node in own.get("nodes")}
    assert (changed := clone.pulumi("up", STACK)).returncode == 0, said(changed)
    (now,) = own.get("jobsets")
    assert now["metadata"]["uid"] != made["metadata"]["uid"], "what JobSet cannot change is made anew"
    assert before == {node["metadata"]["name"]: node["metadata"]["uid"] for node in own.get("nodes")}

    assert (gone := clone.pulumi("destroy", STACK)).returncode == 0, said(gone)
    assert own.get("jobsets", "--selector=slipway-stack") == own.get("pods") == []
    kept = own.get("serviceaccounts,configmaps", "--selector=slipway-stack")
    assert kept == []


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
    (job_set,), (script,) = own.get("jobsets"), own.get("configmaps", "--selector=slipway-stack")
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
