"""Keys of every stack whose hosts are pods, whoever's cluster it is, and the group of pods that follows from them.

Owns what such a stack may say of its pods, as far as stack file and tables tell. Refuses to own which nodes they take
and which cluster it is (infra/targets/<target>/settings.py), and manifests (job_set.py).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from infra.paths import ROOT
from infra.pods import gpu_networks
from infra.pods.gpu_terms import GpuTerms, Image
from infra.pods.pod_group import JobKind, PodGroup, PodGroupError, check_name
from infra.stack_file.settings import Absent, SettingsError
from infra.stack_file.terms import where

# As Kubernetes spells them (apimachinery/pkg/util/validation): a name of one label, of several, and a qualified one.
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMES = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED = rf"({_NAMES}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"

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

    def as_written(self) -> dict[str, str]:
        """Without what it leaves out."""
        return {key: text for key, text in self.model_dump().items() if text}


class PodTerms(GpuTerms):
    """A stack whose hosts are pods."""

    namespace: Name = "default"
    """The namespace of the pods; it has to be there."""
    account: Names = "slipway"
    """The service account of the pods, which is made; its token is in no pod."""
    image: Image = "python:3.12"
    """The image of the pods - any that has Python 3.12, bash and curl; a mirror's, or one by digest."""
    run_as: Annotated[int, Field(ge=0, lt=2**31)] = 0
    """The number of the user that pods run as, in a namespace that admits no root; 0 is the image's own."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that pods stand, each with key, operator, value and effect; the accelerator's own is among them."""
    pull_secrets: tuple[Names, ...] = ()
    """Secrets of the namespace with which the image is pulled."""
    secret_variables: dict[Variable, SecretKey] = Field(default_factory=dict)
    """Variables of the training by <secret>/<key> of the namespace."""
    job_kind: JobKind = JobKind.JOBSET
    """`jobset`, or `job` in a cluster without JobSet - a job for each slice, whose pods start again one by one."""
    jobset_manifests: Absent[str] = None
    """A file with JobSet's manifests, in the version that `up` installs, where its release cannot be reached."""
    jobset_image: Absent[Image] = None
    """The image of JobSet's controller where `up` installs it - the released one of registry.k8s.io if empty; a
    mirror's, or one by digest."""
    queue: Absent[Names] = None
    """The local queue of Kueue, where the cluster has it."""
    priority: Absent[Names] = None
    """The priority class of the pods."""
    restarts: Annotated[int, Field(ge=0, le=1000)] = 3
    """How often a training that failed by itself starts again; nodes that the cluster took away are not counted."""

    @property
    def group_name(self) -> str:
        """Of the JobSet, and the start of every pod's; no two stacks have the same."""
        return f"slipway-{self.stack.replace('.', '--')}"

    @property
    def installs_job_set(self) -> bool:
        """Whether `up` may install JobSet where the cluster has none; a target whose clusters are others' asks."""
        return self.job_kind is JobKind.JOBSET

    @property
    @abstractmethod
    def group(self) -> PodGroup:
        """With everything that the stack file says, and nothing of what hosts install."""

    def pods_with(self, resource: str) -> PodGroup:
        """What all targets say of a stack's pods. resource: what nodes call their accelerators."""
        tolerations = (Toleration(key=resource), *self.tolerations)
        return PodGroup(
            name=self.group_name,
            namespace=self.namespace,
            stack=self.stack,
            slices=self.slices,
            hosts_per_slice=self.row.hosts,
            image=self.image,
            account=self.account,
            artifacts=self.places.artifacts_on_hosts,
            bundle="",
            resources={resource: self.row.chips_per_host},
            tolerations=tuple(one.as_written() for one in tolerations),
            secrets=self.secret_variables,
            pull_secrets=self.pull_secrets,
            kind=self.job_kind,
            queue=self.queue or "",
            priority=self.priority or "",
            restarts=self.restarts,
            run_as=self.run_as,
            environment={each.name: each.value for each in self.gpu_variables},
            beside=gpu_networks.beside_training(self.network_of_gpus),
        )

    def check_place(self) -> None:
        super().check_place()
        if self.jobset_manifests and not (ROOT / self.jobset_manifests).is_file():
            raise SettingsError(f"jobset_manifests is '{self.jobset_manifests}' in {where(self)}, which is no file")
        for key in ("jobset_manifests", "jobset_image"):
            if getattr(self, key) and not self.installs_job_set:
                raise SettingsError(
                    f"{key} is '{getattr(self, key)}' in {where(self)}, but nothing installs JobSet; leave it out"
                )

    def check_group(self) -> None:
        """Raises SettingsError for a network that the accelerator does not have, a user that its daemon cannot be, and
        a name that Kubernetes would refuse once JobSet has made pods' names of it."""
        self.check_gpu_network()
        _user_rule(self)
        try:
            check_name(self.group)
        except PodGroupError as error:
            raise SettingsError(f"{error} ({where(self)})") from None


def _user_rule(settings: PodTerms) -> None:
    """A pod's user is that of the daemon beside training too, whose capabilities only root has."""
    network = settings.network_of_gpus
    if settings.run_as and gpu_networks.beside_training(network).sidecars:
        raise SettingsError(
            f"run_as is {settings.run_as} in {where(settings)}, but the daemon of {gpu_networks.title(network)} beside "
            f"training has to be root; leave run_as out, in a namespace that admits it"
        )
