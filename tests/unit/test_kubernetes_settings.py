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
from infra.pods.run_manifests import run_manifests
from infra.preview.stack_plan import decide
from infra.stack_file.settings import SettingsError, check, from_file
from infra.targets.kubernetes.settings import KubernetesSettings

SHIPPED = (STACKS / "Pulumi.eks-h100-2.yaml").read_text()


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
        ({"artifacts": "s3://bucket/artifacts"}, "no store is reached by s3://"),
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


def test_a_name_that_kubernetes_would_cut_is_refused_with_what_to_shorten() -> None:
    with pytest.raises(SettingsError, match=r"Kubernetes allows 63; shorten the stack's name by \d+ \("):
        made("eks-h100-2." + "long" * 10)


def test_a_set_of_256_hosts_is_as_small_as_one_of_two() -> None:
    """Kubernetes counts them; what it is told does not grow with them."""
    small, large = made(), made(accelerator="h100-64", slices=4)
    found = job(large)
    assert (found["replicas"], found["template"]["spec"]["completions"]) == (4, 64)
    assert len(str(found)) < 1.1 * len(str(job(small)))
