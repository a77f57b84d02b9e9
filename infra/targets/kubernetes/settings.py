"""Keys that a stack of target `kubernetes` has besides those of all pods, and the rules between them.

Owns what a group in somebody's own cluster may say, as far as stack file and tables tell. Nothing is assumed about
the cloud that the cluster is in. Refuses to own manifests (infra/pods/), and what of it may lie in S3 (s3_rules.py).
Not run on real hardware.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field

from infra.hardware import Api
from infra.pods.pod_group import JobKind, PodGroup
from infra.pods.pod_terms import LabelValue, Names, PodTerms, Qualified
from infra.stack_file.settings import Absent, SettingsError
from infra.stack_file.terms import where
from infra.targets.kubernetes import s3_rules
from infra.targets.kubernetes.s3_rules import S3Terms
from infra.targets.places import Places, below, in_bucket

NVIDIA = "nvidia.com/gpu"  # what its device plugin offers of a node


class KubernetesSettings(PodTerms):
    """A stack in a cluster that exists already."""

    api: ClassVar[Api] = Api.KUBERNETES
    offered_as: ClassVar[str] = "nodes of a cluster of your own"

    context: Annotated[str, Field(min_length=1, pattern=r"^[\x21-\x7e]+$")]
    """The context of the kubeconfig (KUBECONFIG, else ~/.kube/config) that leads to the cluster."""
    shared_claim: Absent[Names] = None
    """The PersistentVolumeClaim (ReadWriteMany) of a volume that all pods and this machine see; wheels, text and runs
    lie there unless `artifacts` and `runs` name buckets."""
    shared_path: Absent[Annotated[str, Field(pattern=r"^(/[^/\x00\r\n:]+)+$")]] = None
    """Where that volume is mounted, here and in pods."""
    resource: Absent[Qualified] = None
    """What the nodes call their accelerators - `nvidia.com/gpu` if empty."""
    node_labels: dict[Qualified, LabelValue] = Field(default_factory=dict)
    """Labels that a node must have."""
    exclusive_by: Absent[Qualified] = None
    """A label of nodes whose values tell pools apart, like cloud.google.com/gke-nodepool - a slice gets one whole."""
    account_annotations: dict[Qualified, Annotated[str, Field(min_length=1)]] = Field(default_factory=dict)
    """Annotations of the pods' service account, like eks.amazonaws.com/role-arn, by which they have a role of AWS."""
    s3_region: Absent[Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]] = None
    """The region of the buckets of s3://; us-east-1 of another server than Amazon's, if it is empty."""
    s3_endpoint: Absent[Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+/?$")]] = None
    """Another server than Amazon's that speaks S3, like https://minio.example.com:9000, as pods and this machine reach
    it; this machine is told by AWS_ENDPOINT_URL_S3 too."""
    install_jobset: bool = False
    """Whether `up` installs JobSet where the cluster has none; it needs the rights of the cluster's administrator."""

    @property
    def installs_job_set(self) -> bool:
        return self.install_jobset and super().installs_job_set

    @property
    def billed_in(self) -> str:
        return f"{self.context}/{self.namespace}"

    @property
    def places(self) -> Places:
        """On the shared volume, where the stack names no buckets. Text goes where wheels go, below `prepared`."""
        root = self.shared_path or ""
        places = self.placed(f"{root}/artifacts", f"{root}/runs/{self.stack}", f"{root}/data" if root else "")
        return replace(places, data=below(places.artifacts, "prepared")) if in_bucket(places.artifacts) else places

    @property
    def group(self) -> PodGroup:
        """With everything that the stack file says, and nothing of what hosts install."""
        mounted = self.shared_path and self.shared_claim
        pods = self.pods_with(self.resource or NVIDIA)
        return replace(
            pods,
            account_annotations=self.account_annotations,
            environment={**pods.environment, **self.s3.environment},
            node_labels=self.node_labels,
            mounts={str(self.shared_path): str(self.shared_claim)} if mounted else {},
            exclusive_by=self.exclusive_by or "",
        )

    @property
    def text_place(self) -> str:
        """What `data` names in a bucket, of any kind that pods read; else where `up` puts the text."""
        return self.data.strip() if in_bucket(self.data) else super().text_place

    @property
    def s3(self) -> S3Terms:
        written = {f"training.{key}": value for key, value in self.training.items() if isinstance(value, str)}
        files = {"artifacts": self.artifacts, "artifacts_on_hosts": self.artifacts_on_hosts, "data": self.data}
        return S3Terms(
            files={key: value for key, value in files.items() if value},
            checkpoints=({"runs": self.runs} if self.runs else {}) | written,
            region=self.s3_region or "",
            endpoint=(self.s3_endpoint or "").rstrip("/"),
            role=self.account_annotations.get(s3_rules.ROLE_ANNOTATION, ""),
            secrets=self.secret_variables,
        )

    def check_place(self) -> None:
        super().check_place()
        for rule in (_s3_rule, _files_rule, _exclusive_rule, _install_rule, PodTerms.check_group):
            rule(self)


def _s3_rule(settings: KubernetesSettings) -> None:
    if problem := s3_rules.problem(settings.s3):
        raise SettingsError(f"{problem} ({where(settings)})")


def _files_rule(settings: KubernetesSettings) -> None:
    """Pods and this machine have to mean the same files."""
    if (settings.shared_claim is None) != (settings.shared_path is None):
        raise SettingsError(f"shared_claim and shared_path go together in {where(settings)}; give both, or neither")
    places = settings.places
    for key, place in (("artifacts", places.artifacts_on_hosts), ("runs", places.runs)):
        if in_bucket(place):
            continue
        if settings.shared_path is None:
            raise SettingsError(
                f"{key} of {where(settings)} would lie on this machine, where no pod reads them; write "
                f"`slipway:{key}: {'gs' if key == 'runs' else 's3'}://<bucket>`, or "
                f"`slipway:shared_claim: <PersistentVolumeClaim>` and "
                f"`slipway:shared_path: <where it is mounted, here and in pods>`"
            )
        if not below(place, "").startswith(below(settings.shared_path, "")):
            raise SettingsError(
                f"{key} is '{place}' in {where(settings)}, which is not on the shared volume; pods see "
                f"{settings.shared_path} alone"
            )


def _exclusive_rule(settings: KubernetesSettings) -> None:
    if settings.exclusive_by and settings.job_kind is JobKind.JOB:
        raise SettingsError(
            f"exclusive_by is '{settings.exclusive_by}' in {where(settings)}, which JobSet alone knows; leave it "
            f"out, or write `job_kind: jobset`"
        )


def _install_rule(settings: KubernetesSettings) -> None:
    if settings.install_jobset and settings.job_kind is JobKind.JOB:
        raise SettingsError(
            f"install_jobset is true in {where(settings)}, but job_kind is 'job', which needs no JobSet; leave one out"
        )
