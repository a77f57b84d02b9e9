"""What the pods of a run are to Kubernetes, whoever's cluster it is: one value, from which manifests follow.

Owns what differs between stacks, and the names that Kubernetes makes of a group's. Refuses to own what a pod does
(training/bootstrap.sh) and which pools or clusters there are (the targets).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from infra.sentences import SentenceError

SLICE = "slice"  # the JobSet's replicated job: one job for each slice
_PORT = 6002  # of the first pod, as in xpk's JobSets; any free one would do, since each pod has its own address
_LABEL_LIMIT = 63  # of a DNS label, which a pod's host name is
_RANDOM = "-abcde"  # what a job appends to the name of each of its pods


class JobKind(StrEnum):
    """What runs the pods."""

    JOBSET = "jobset"  # one set, whose jobs start again together
    JOB = "job"  # a job for each slice, where the cluster has no JobSet


@dataclass(frozen=True)
class BesideTraining:
    """What a pod has for its host's network, as Kubernetes spells it: annotations of the pod, containers that start
    before training and end after it, volumes, and which of these the training has."""

    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    sidecars: tuple[Mapping[str, Any], ...] = ()
    volumes: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mapping[str, Any], ...] = ()


class PodGroupError(SentenceError, ValueError):
    """Kubernetes would not take it; the message says what to change."""


@dataclass(frozen=True)
class PodGroup:
    """A run's pods: `slices` jobs of `hosts_per_slice` pods each.

    resources: what each pod takes of its node, like {"google.com/tpu": 4}. exclusive_by: a label of nodes; a slice has
    all nodes of one value of it to itself. slice_labels: without a JobSet, those of each slice's nodes. mounts: claims
    by the path where pods see them. secrets: by the variable, each "<secret>/<key>". restarts: how often what failed by
    itself starts again; what was taken away is not counted. run_as: the number of a user, 0 for the image's own.
    """

    name: str
    namespace: str
    stack: str
    slices: int
    hosts_per_slice: int
    image: str
    account: str
    artifacts: str
    bundle: str
    resources: Mapping[str, int]
    account_annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    node_labels: Mapping[str, str] = field(default_factory=dict[str, str])
    tolerations: tuple[Mapping[str, str], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: Mapping[str, str] = field(default_factory=dict[str, str])
    pull_secrets: tuple[str, ...] = ()
    exclusive_by: str = ""
    slice_labels: tuple[Mapping[str, str], ...] = ()
    kind: JobKind = JobKind.JOBSET
    beside: BesideTraining = BesideTraining()
    queue: str = ""
    priority: str = ""
    restarts: int = 3
    run_as: int = 0

    @property
    def hosts(self) -> int:
        return self.slices * self.hosts_per_slice

    @property
    def coordinator(self) -> str:
        """host:port of the first pod, by its name in the cluster's DNS; a JobSet's service is called like the set."""
        return f"{self.job(0)}-0.{self.name}:{_PORT}"

    def job(self, index: int) -> str:
        """A slice's job."""
        return f"{self.name}-{SLICE}-{index}"

    @property
    def longest_pod(self) -> str:
        """The longest name that Kubernetes makes of the group's."""
        return f"{self.job(self.slices - 1)}-{self.hosts_per_slice - 1}{_RANDOM}"


def check_name(group: PodGroup) -> None:
    """Raises PodGroupError where JobSet's webhook or the API server would refuse what becomes of the name."""
    over = len(group.longest_pod) - _LABEL_LIMIT
    if over > 0:
        raise PodGroupError(
            f"the pod '{group.longest_pod}' would have {len(group.longest_pod)} characters, Kubernetes allows "
            f"{_LABEL_LIMIT}; shorten the stack's name by {over}"
        )


type Manifest = dict[str, Any]
