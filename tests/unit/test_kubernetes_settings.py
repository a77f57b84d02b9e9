"""Stack files of target kubernetes: what is accepted, and one sentence with the fix for what is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.components.job_set_inputs import job_set_inputs
from infra.paths import STACKS
from infra.pods import job_set_release
from infra.pods.job_set_release import ReleaseError
from infra.pods.pod_findings import networks_named_by
from infra.pods.run_manifests import run_manifests
from infra.preview.stack_plan import decide
from infra.stack_file.settings import SettingsError, check, from_file
from infra.targets.kubernetes.s3_rules import other_server
from infra.targets.kubernetes.settings import KubernetesSettings

SHIPPED = (STACKS / "Pulumi.eks-h100-2.yaml").read_text()
TRAINING: dict[str, Any] = yaml.safe_load(SHIPPED)["config"]["slipway:training"]
OWN = TRAINING | {"override_model_config": True}  # a vocabulary of one's own text
CONTENT = 16 * "0"
ROLE = "arn:aws:iam::123456789012:role/training"
IN_S3 = {"artifacts": "s3://bucket/slipway", "s3_region": "eu-central-1"}


def made(stack: str = "eks-h100-2", **changes: Any) -> KubernetesSettings:
    config: dict[str, Any] = yaml.safe_load(SHIPPED)["config"]
    values = {key.removeprefix("slipway:"): value for key, value in config.items()} | changes
    found = check(stack, {key: value for key, value in values.items() if value is not None})
    assert isinstance(found, KubernetesSettings)
    return found


def job(settings: KubernetesSettings) -> dict[str, Any]:
    """The only job's template, as the cluster is told it."""
    *_, job_set = run_manifests(settings, decide(settings).software)
    (replicated,) = job_set["spec"]["replicatedJobs"]
    return replicated


def test_shipped_stacks_are_whole() -> None:
    for hosts in (2, 8):
        plan = decide(from_file(f"eks-h100-{hosts}"))
        assert (plan.spec.hosts, plan.spec.devices_per_host) == (hosts, 8)
        assert f"{hosts} pods of python:3.12, 8 nvidia.com/gpu each" in "\n".join(plan.notices)


def test_no_google_project_is_asked_for_and_files_lie_on_the_volume() -> None:
    settings = made()
    assert settings.billed_in == "my-cluster/default"
    places = settings.places
    assert (places.artifacts, places.runs) == ("/mnt/training/artifacts", "/mnt/training/runs/eks-h100-2")
    pod = job(settings)["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert {"name": "claim-0", "mountPath": "/mnt/training"} in container["volumeMounts"]


def test_what_a_stack_says_of_its_pods_is_what_they_have() -> None:
    settings = made(
        namespace="team",
        node_labels={"example.com/pool": "h100"},
        tolerations=[{"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}],
        pull_secrets=["registry"],
        secret_variables={"WANDB_API_KEY": "wandb/key"},
        priority="high",
        resource="amd.com/gpu",
    )
    pod = job(settings)["template"]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"example.com/pool": "h100"}
    assert pod["tolerations"][1] == {"key": "dedicated", "operator": "Equal", "value": "ml", "effect": "NoSchedule"}
    assert (pod["imagePullSecrets"], pod["priorityClassName"]) == ([{"name": "registry"}], "high")
    (container,) = pod["containers"]
    secret = {"secretKeyRef": {"name": "wandb", "key": "key"}}
    assert {"name": "WANDB_API_KEY", "valueFrom": secret} in container["env"]
    assert container["resources"]["requests"] == {"amd.com/gpu": "8"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"context": None}, "key 'context' is missing"),
        ({"accelerator": "v6e-8"}, "accelerator 'v6e-8' is not offered as nodes of a cluster of your own"),
        ({"shared_claim": None}, "shared_claim and shared_path go together"),
        ({"shared_claim": None, "shared_path": None}, "artifacts of stacks/Pulumi.eks-h100-2.yaml would lie on this"),
        (
            {"runs": "/home/me/runs"},
            "runs is '/home/me/runs/eks-h100-2' in stacks/Pulumi.eks-h100-2.yaml, which is not",
        ),
        (
            {"artifacts": "s3://bucket/artifacts"},
            "s3_region is missing: pods sign what they ask of s3:// for the region",
        ),
        (
            {"artifacts": "s3://Bucket"},
            "artifacts is 's3://Bucket' in stacks/Pulumi.eks-h100-2.yaml: no place for files",
        ),
        ({"data": f"s3://bucket/texts/{CONTENT}"}, "s3_region is missing"),
        ({"data": "s3://bucket/texts/*.txt", "s3_region": "eu-west-1"}, "the last part of its URL is its content"),
        ({"s3_region": "eu-west-1"}, "s3_region is 'eu-west-1', but neither artifacts nor data lies in s3://"),
        ({"s3_endpoint": "minio:9000"}, "s3_endpoint is 'minio:9000'"),
        (
            {"runs": "s3://bucket/runs", "s3_region": "eu-west-1"},
            "runs is 's3://bucket/runs', but Orbax, which writes and reads checkpoints, takes a directory or gs:// and "
            "refuses s3:// as a path that is not absolute: leave runs out, and give shared_claim and shared_path",
        ),
        (
            {"training": TRAINING | {"load_parameters_path": "s3://bucket/0/items"}},
            "training.load_parameters_path is 's3://bucket/0/items', but Orbax",
        ),
        (
            IN_S3 | {"secret_variables": {"AWS_ACCESS_KEY_ID": "aws/id"}},
            "secret_variables has AWS_ACCESS_KEY_ID alone; S3 wants both",
        ),
        (
            IN_S3 | {"shared_claim": None, "shared_path": None},
            "runs of stacks/Pulumi.eks-h100-2.yaml would lie on this machine, where no pod reads them; write "
            "`slipway:runs: gs://<bucket>`",
        ),
        ({"namespace": "Team"}, "namespace is 'Team'"),
        ({"secret_variables": {"KEY": "wandb"}}, "secret_variables.KEY is 'wandb'"),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, "tolerations.0.effect is 'Never'"),
        ({"job_kind": "job", "exclusive_by": "pool"}, "exclusive_by is 'pool' in stacks/Pulumi.eks-h100-2.yaml, which"),
        ({"job_kind": "job", "install_jobset": True}, "install_jobset is true in stacks/Pulumi.eks-h100-2.yaml, but"),
        ({"jobset_image": "mirror/jobset"}, "jobset_image is 'mirror/jobset' in stacks/Pulumi.eks-h100-2.yaml, but"),
        ({"install_jobset": True, "jobset_manifests": "absent.yaml"}, "which is no file"),
        ({"project": "my-project"}, "unknown key 'project'"),
    ],
)
def test_what_cannot_be_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        made(**changes)
    assert sentence in str(refused.value)


def test_jobset_is_installed_where_that_is_allowed_from_a_file_that_is_the_release(tmp_path: Path) -> None:
    assert job_set_inputs(made(), []) is None, "the cluster is others' too"
    released = job_set_inputs(made(install_jobset=True), [], "my-cluster")
    assert released and (released.cluster, released.source) == ("my-cluster", job_set_release.URL)
    assert released.image == f"registry.k8s.io/jobset/jobset:{released.version}", "the published image is deleted"
    (file := tmp_path / "manifests.yaml").write_text("kind: Namespace\n")
    with pytest.raises(ReleaseError, match=r"manifests\.yaml' is no file of manifests; JobSet v"):
        job_set_inputs(made(install_jobset=True, jobset_manifests=str(file)), [])


def test_wheels_and_text_lie_in_s3_and_checkpoints_on_the_volume() -> None:
    settings = made(
        **IN_S3, account_annotations={"eks.amazonaws.com/role-arn": ROLE}, data="stdlib", steps=4, training=OWN
    )
    places = settings.places
    assert (places.artifacts, places.data) == ("s3://bucket/slipway", "s3://bucket/slipway/prepared")
    assert places.runs == "/mnt/training/runs/eks-h100-2"
    plan = decide(settings)
    account, script, _ = run_manifests(settings, plan.software)
    assert account["metadata"]["annotations"] == {"eks.amazonaws.com/role-arn": ROLE}
    assert sorted(script["data"]) == ["bootstrap.sh", "s3_objects.py"]
    (container,) = job(settings)["template"]["spec"]["template"]["spec"]["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert (variables["SLIPWAY_ARTIFACTS"], variables["AWS_REGION"]) == ("s3://bucket/slipway", "eu-central-1")
    assert "AWS_ENDPOINT_URL_S3" not in variables
    said = "\n".join(plan.notices)
    assert f"pods read s3://bucket/slipway, s3://bucket/slipway/prepared (Amazon's in eu-central-1) as {ROLE}" in said
    assert (
        f"each of 2 hosts copies it from s3://bucket/slipway/prepared/{plan.spec.data and plan.spec.data.content}"
        in said
    )


def test_only_what_lies_in_s3_needs_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wheels on the volume, text in the bucket of another server, whose keys are in a secret."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://minio.example.com:9000")
    settings = made(
        data=f"s3://texts/here/{CONTENT}",
        training=OWN,
        s3_endpoint="https://minio.example.com:9000",
        secret_variables={"AWS_ACCESS_KEY_ID": "minio/id", "AWS_SECRET_ACCESS_KEY": "minio/secret"},
    )
    assert settings.places.artifacts == "/mnt/training/artifacts"
    assert settings.places.data == "/mnt/training/data", "what somebody has pushed elsewhere is no place of ours"
    of_gpus = made().group.environment
    assert "NCCL_DEBUG" in of_gpus and not [name for name in of_gpus if name.startswith("AWS_")]
    minio = {"AWS_REGION": "us-east-1", "AWS_ENDPOINT_URL_S3": "https://minio.example.com:9000"}
    assert settings.group.environment == {**of_gpus, **minio}
    plan = decide(settings)
    assert plan.spec.data and plan.spec.data.directory == settings.data
    assert "(https://minio.example.com:9000) with the keys of secret minio" in "\n".join(plan.notices)
    (_, script, _) = run_manifests(settings, plan.software)
    assert list(script["data"]) == ["bootstrap.sh"]


def test_this_machine_has_to_push_where_pods_read() -> None:
    amazon, minio = made(**IN_S3).s3, made(**IN_S3, s3_endpoint="https://minio:9000/").s3
    variable = "AWS_ENDPOINT_URL_S3"
    assert other_server(amazon, {}) is None
    assert other_server(minio, {variable: "https://minio:9000"}) is None
    assert other_server(made().s3, {variable: "https://minio:9000"}) is None
    assert str(other_server(minio, {})).endswith(f"would ask Amazon; run `export {variable}=https://minio:9000`")
    with pytest.raises(SettingsError, match="would ask Amazon; run `export AWS_ENDPOINT_URL_S3=https://minio:9000`"):
        decide(made(**IN_S3, s3_endpoint="https://minio:9000"))
    assert f"run `unset {variable}`, or write" in str(other_server(amazon, {variable: "https://minio:9000"}))


def test_a_name_that_kubernetes_would_cut_is_refused_with_what_to_shorten() -> None:
    with pytest.raises(SettingsError, match=r"Kubernetes allows 63; shorten the stack's name by \d+ \("):
        made("eks-h100-2." + "long" * 10)


def test_a_set_of_256_hosts_is_as_small_as_one_of_two() -> None:
    """Kubernetes counts them; what it is told does not grow with them."""
    small, large = made(), made(accelerator="h100-64", slices=4)
    found = job(large)
    assert (found["replicas"], found["template"]["spec"]["completions"]) == (4, 64)
    assert len(str(found)) < 1.1 * len(str(job(small)))


def test_gpus_of_a_known_machine_get_what_its_network_needs() -> None:
    """In a cluster of GKE that somebody else has made."""
    group = made("mine-a3-mega-2", accelerator="a3-mega-2").group
    assert [each["name"] for each in group.beside.sidecars] == ["tcpxo-daemon"]
    needed = list(networks_named_by(group))
    assert [each.name for each in needed] == [f"vpc{index}" for index in range(1, 9)]
    assert needed[0].path == "/apis/networking.gke.io/v1/networks/vpc1"
    assert needed[0].absent.startswith("the cluster has no Network vpc1: target gke-gpu makes them")
    assert list(networks_named_by(made().group)) == []


def test_what_nobody_has_read_of_efa_is_said_and_not_guessed() -> None:
    settings = made(gpu_network="efa")
    said = "\n".join(decide(settings).notices)
    assert "between hosts: EFA of Amazon's nodes; a training over plain sockets ends" in said
    assert "not known of EFA of Amazon's nodes: how many EFA devices a pod takes of its node" in said
    assert settings.group.beside.sidecars == ()
    assert settings.group.resources == {"nvidia.com/gpu": 8}


def test_tensor_parallelism_over_nodes_is_refused_there_too() -> None:
    config: dict[str, Any] = yaml.safe_load(SHIPPED)["config"]
    training = config["slipway:training"] | {"ici_tensor_parallelism": 16}
    with pytest.raises(SettingsError, match="it would go over the network between hosts, and not over NVLink"):
        decide(made(training=training))
