"""Keys that a stack of target `kubernetes` has besides those of all that is paid for, and the rules between them.

Owns what a group in somebody's own cluster may say, as far as stack file and tables tell. Nothing is assumed about
the cloud that the cluster is in. Refuses to own manifests (infra/pods/). Not run on real hardware.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from infra.hardware import Api
from infra.pods.pod_group import JobKind, PodGroup, PodGroupError, check_name
from infra.stack_file.settings import Absent, SettingsError
from infra.stack_file.terms import Terms, where
from infra.targets.places import Places, below, in_bucket

# As Kubernetes spells them (apimachinery/pkg/util/validation): a name of one label, of several, and a qualified one.
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMES = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = rf"({_NAMES}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
NVIDIA = "nvidia.com/gpu"  # what its device plugin offers of a node

type Name = Annotated[str, Field(pattern=f"^{_LABEL}$")]
type Names = Annotated[str, Field(pattern=f"^{_NAMES}$", max_length=253)]
type Qualified = Annotated[str, Field(pattern=f"^{_QUALIFIED}$")]
type LabelValue = Annotated[str, Field(pattern=f"^{_VALUE}$")]
type SecretKey = Annotated[str, Field(pattern=rf"^{_NAMES}/[-._A-Za-z0-9]+$")]
type Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]


class Toleration(BaseModel):
    """As a pod has it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: Qualified
    operator: Annotated[str, Field(pattern="^(Exists|Equal)$")] = "Exists"
    value: LabelValue = ""
    effect: Annotated[str, Field(pattern="^(NoSchedule|PreferNoSchedule|NoExecute)?$")] = ""


class KubernetesSettings(Terms):
    """A stack in a cluster that exists already."""

    api: ClassVar[Api] = Api.KUBERNETES
    offered_as: ClassVar[str] = "nodes of a cluster of your own"

    context: Annotated[str, Field(min_length=1, pattern=r"^[\x21-\x7e]+$")]
    """The context of the kubeconfig (KUBECONFIG, else ~/.kube/config) that leads to the cluster."""
    namespace: Name = "default"
    """The namespace of the pods; it has to be there."""
    account: Names = "slipway"
    """The service account of the pods, which is made; its token is in no pod."""
    image: Annotated[str, Field(pattern=r"^[a-z0-9][\x21-\x7e]*$")] = "python:3.12"
    """The image of the pods - any that has Python 3.12, bash and curl; a mirror's, or one by digest."""
    shared_claim: Absent[Names] = None
    """The PersistentVolumeClaim (ReadWriteMany) of a volume that all pods and this machine see; wheels, text and runs
    lie there unless `artifacts` and `runs` name buckets."""
    shared_path: Absent[Annotated[str, Field(pattern=r"^(/[^/\x00\r\n:]+)+$")]] = None
    """Where that volume is mounted, here and in pods."""
    resource: Absent[Qualified] = None
    """What the nodes call their accelerators - `nvidia.com/gpu` if empty."""
    node_labels: dict[Qualified, LabelValue] = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that pods stand, each with key, operator, value and effect; the accelerator's own is among them."""
    exclusive_by: Absent[Qualified] = None
    """A label of nodes whose values tell pools apart, like cloud.google.com/gke-nodepool - a slice gets one whole."""
    pull_secrets: tuple[Names, ...] = ()
    """Secrets of the namespace with which the image is pulled."""
    secret_variables: dict[Variable, SecretKey] = Field(default_factory=dict)
    """Variables of the training by <secret>/<key> of the namespace."""
    job_kind: JobKind = JobKind.JOBSET
    """`jobset`, or `job` in a cluster without JobSet - a job for each slice, whose pods start again one by one."""
    queue: Absent[Names] = None
    """The local queue of Kueue, where the cluster has it."""
    priority: Absent[Names] = None
    """The priority class of the pods."""
    restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """How often a training that failed by itself starts again; nodes that the cluster took away are not counted."""

    @property
    def billed_in(self) -> str:
        return f"{self.context}/{self.namespace}"

    @property
    def places(self) -> Places:
        """On the shared volume, where the stack names no buckets."""
        root = self.shared_path or ""
        return self.placed(f"{root}/artifacts", f"{root}/runs/{self.stack}", f"{root}/data" if root else "")

    @property
    def group_name(self) -> str:
        """Of the JobSet, and the start of every pod's; no two stacks have the same."""
        return f"slipway-{self.stack.replace('.', '--')}"

    def check_place(self) -> None:
        super().check_place()
        for rule in (_files_rule, _exclusive_rule, _name_rule):
            rule(self)


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
                f"`slipway:{key}: gs://<bucket>`, or `slipway:shared_claim: <PersistentVolumeClaim>` and "
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


def _name_rule(settings: KubernetesSettings) -> None:
    try:
        check_name(bare_group(settings))
    except PodGroupError as error:
        raise SettingsError(f"{error} ({where(settings)})") from None


def bare_group(settings: KubernetesSettings) -> PodGroup:
    """With everything that the stack file says, and nothing of what hosts install."""
    row = settings.row
    resource = settings.resource or NVIDIA
    tolerations = [one.model_dump() for one in (Toleration(key=resource), *settings.tolerations)]
    return PodGroup(
        name=settings.group_name,
        namespace=settings.namespace,
        stack=settings.stack,
        slices=settings.slices,
        hosts_per_slice=row.hosts,
        image=settings.image,
        account=settings.account,
        artifacts=settings.places.artifacts_on_hosts,
        bundle="",
        resources={resource: row.chips_per_host},
        node_labels=settings.node_labels,
        tolerations=tuple({key: text for key, text in one.items() if text} for one in tolerations),
        secrets=settings.secret_variables,
        mounts={settings.shared_path: settings.shared_claim} if settings.shared_path and settings.shared_claim else {},
        pull_secrets=settings.pull_secrets,
        exclusive_by=settings.exclusive_by or "",
        kind=settings.job_kind,
        queue=settings.queue or "",
        priority=settings.priority or "",
        restarts=settings.restarts,
    )
