"""Keys of every stack that makes a GKE cluster of its own, besides those of all pods and of all at Google.

Owns what such a cluster may be, as far as stack file and tables tell, whatever accelerators its pools have. Refuses to
own the pools (infra/targets/<target>/) and pods (infra/pods/). Not run on real hardware.
"""

from __future__ import annotations

import dataclasses
import re
from abc import abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from infra import hardware, names
from infra.hardware import Api
from infra.host_secrets import host_secret
from infra.pods.pod_group import JobKind, PodGroup
from infra.pods.pod_terms import PodTerms, Toleration
from infra.rules import google_checks
from infra.stack_file.cloud_training import CloudTrainingSettings, check_reservation_zone
from infra.stack_file.settings import Absent, SettingsError, without
from infra.stack_file.terms import where
from infra.targets.places import Places
from infra.tiers import Tier

POOL_LABEL = "cloud.google.com/gke-nodepool"
QUEUED_LABEL = "cloud.google.com/gke-queued"  # GKE adds the taint of that name, and not the label
_BECOMES = "iam.gke.io/gcp-service-account"
_RESERVATION = re.compile(r"projects/(?P<project>[^/]+)/(zones/(?P<zone>[^/]+)/)?reservations/(?P<name>[^/]+)")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+)(?:-gke\.(\d+))?)?")


class ReleaseChannel(StrEnum):
    RAPID = "rapid"
    REGULAR = "regular"
    STABLE = "stable"
    EXTENDED = "extended"


class PoolWorkload(StrEnum):
    PODS = "pods"
    NONE = "none"


def _version_problem(version: str) -> str | None:
    if _VERSION.fullmatch(version):
        return None
    return "no version of GKE; give one like 1.34.0-gke.2201000"


def _order(version: str) -> tuple[int, ...]:
    """Of a version that may leave parts out: 1.34 is the newest of them all, which GKE chooses."""
    found = _VERSION.fullmatch(version)
    assert found, f"{version!r} is no version"
    return tuple(10**9 if part is None else int(part) for part in found.groups())


class GkeSettings(CloudTrainingSettings, PodTerms):
    """A GKE cluster of its own, with a pool of nodes for each slice."""

    api: ClassVar[Api] = Api.GKE
    offered_as: ClassVar[str] = "nodes of GKE"

    workload: PoolWorkload = PoolWorkload.PODS
    """`pods`, or `none` - the cluster and its pools alone, for whatever else shall run there."""
    release_channel: ReleaseChannel = ReleaseChannel.REGULAR
    """The channel of GKE by which the cluster is upgraded - `rapid`, `regular`, `stable` or `extended`."""
    cluster_version: Absent[Annotated[str, without(_version_problem)]] = None
    """The oldest version of GKE that the cluster may have, like 1.34.0-gke.2201000; if empty, what the accelerator and
    the tier need."""
    system_machine_type: Annotated[str, without(google_checks.machine_type_problem)] = "e2-standard-4"
    """The machine of the CPU nodes on which the cluster's own pods run; they are billed besides, and never spot."""
    boot_disk_gb: Annotated[int, Field(ge=10, le=65_536)] = 100
    """The disk of each node with accelerators, on which its pod keeps wheels, environment and text."""
    queued_provisioning: bool = False
    """Whether the nodes of tier flex-start come when Kueue asks for all of a slice at once; needs `queue`."""

    @property
    def places(self) -> Places:
        """With the place from which pods copy text, since the target declares what brings it there."""
        return dataclasses.replace(super().places, data=f"gs://{self.names.data_bucket}/prepared")

    @property
    def cluster_name(self) -> str:
        """No two stacks have the same."""
        return names.shortened(f"{self.prefix}-{self.stack.replace('.', '--')}", names.CLUSTER_LIMIT)

    @property
    def node_email(self) -> str:
        """Of the account of nodes, which the stack makes."""
        return names.account_email(self.project, self.account_id("nodes"))

    @property
    def pod_email(self) -> str:
        """Of the account that pods become: the stack's own, or the one that it names."""
        return self.service_account or names.account_email(self.project, self.account_id("train"))

    def account_id(self, kind: str) -> str:
        """Of an account that no other stack has."""
        room = names.ACCOUNT_LIMIT - len(f"-{kind}")
        return f"{names.shortened(f'{self.prefix}-{self.stack.replace(".", "--")}', room)}-{kind}"

    @property
    @abstractmethod
    def pool_names(self) -> tuple[str, ...]:
        """One for each slice; another one where the plugin would plan an update and send nothing."""

    @property
    @abstractmethod
    def resource(self) -> str:
        """What GKE calls the chips of a node, and the taint of nodes that have any."""

    @property
    def data_cards(self) -> int:
        """Network cards of a node beside the first, each in a network of its own."""
        return 0

    @property
    def makes_networks(self) -> bool:
        """Whether those networks are the stack's own."""
        return self.data_cards > 0

    @property
    @abstractmethod
    def node_labels(self) -> Mapping[str, str]:
        """By which pods find the nodes of a slice."""

    @property
    def mirrored_image(self) -> str:
        """Of the pods, as their nodes reach it."""
        return self.mirrored(self.image)

    @property
    def minimum_version(self) -> str | None:
        """The oldest version of GKE that the accelerator and the tier need, where a source says one."""
        flexible = hardware.gke_flex_start_version(self.row.platform) if self.tier is Tier.FLEX_START else None
        return max((version for version in (self.row.gke_version, flexible) if version), key=_order, default=None)

    @property
    def reservation_value(self) -> str:
        """As a node pool names it: GKE looks in its own zone, and its own project unless the path says another."""
        path = _RESERVATION.fullmatch(self.reservation or "")
        return f"projects/{path['project']}/reservations/{path['name']}" if path else str(self.reservation)

    @property
    def group(self) -> PodGroup:
        """A slice has a pool of nodes to itself."""
        labels = dict(self.node_labels)
        group = self.pods_with(self.resource)
        if self.queued_provisioning:
            labels[QUEUED_LABEL] = "true"
            tolerations = (*group.tolerations, Toleration(key=QUEUED_LABEL).as_written())
            group = dataclasses.replace(group, tolerations=tolerations)
        secrets = [host_secret(name, self.names.secret_path(name)).line for name in self.host_secrets]
        return dataclasses.replace(
            group,
            node_labels=labels,
            image=self.mirrored_image,
            exclusive_by=POOL_LABEL if self.job_kind is JobKind.JOBSET else "",
            slice_labels=tuple({POOL_LABEL: name} for name in self.pool_names),
            account_annotations={_BECOMES: self.pod_email},
            environment={**group.environment, **({"SLIPWAY_SECRETS": "\n".join(secrets)} if secrets else {})},
        )

    def check_place(self) -> None:
        super().check_place()
        for rule in (_zone_rule, _tier_rule, _version_rule, _machine_rule, _project_rule):
            rule(self)
        self.check_group()


def _zone_rule(settings: GkeSettings) -> None:
    if len(settings.zones) > 1:
        raise SettingsError(
            f"zones are {', '.join(settings.zones)} in {where(settings)}, but a pool is made in one and does not try "
            f"another; keep one"
        )


def _tier_rule(settings: GkeSettings) -> None:
    tier = settings.tier
    if tier is Tier.GUARANTEED:
        raise SettingsError(
            f"tier is 'guaranteed' in {where(settings)}, which GKE does not have; write `tier: reserved`"
        )
    if tier is Tier.RESERVED and not settings.reservation:
        raise SettingsError(f"tier is 'reserved' in {where(settings)}, but which? write `slipway:reservation: <name>`")
    if settings.queued_provisioning and tier is not Tier.FLEX_START:
        raise SettingsError(
            f"queued_provisioning is true in {where(settings)}, but tier is '{tier}'; only nodes of flex-start are "
            f"queued for"
        )
    if settings.queued_provisioning and not settings.queue:
        raise SettingsError(
            f"queued_provisioning is true in {where(settings)}, but nobody asks for the nodes; write the queue of "
            f"Kueue that does, `slipway:queue: <name>`, or leave queued_provisioning out"
        )
    if settings.reservation:
        _check_reservation(settings, settings.reservation)


def _check_reservation(settings: GkeSettings, reservation: str) -> None:
    path = _RESERVATION.fullmatch(reservation)
    if not path and not names.COMPUTE_NAME.fullmatch(reservation):
        raise SettingsError(
            f"reservation is '{reservation}' in {where(settings)}; write its name, or "
            f"projects/<project>/zones/<zone>/reservations/<name> where another project shares it"
        )
    if path and path["zone"]:
        check_reservation_zone(settings, path["zone"])


def _version_rule(settings: GkeSettings) -> None:
    given, needed = settings.cluster_version, settings.minimum_version
    if given and needed and _order(given) < _order(needed):
        what = settings.row.family if needed == settings.row.gke_version else f"tier {settings.tier}"
        raise SettingsError(
            f"cluster_version is {given} in {where(settings)}, but {what} needs GKE {needed} or newer; write that, or "
            f"leave cluster_version out"
        )


def _machine_rule(settings: GkeSettings) -> None:
    machines = {row.machine.name: row.name for row in hardware.rows() if row.machine}
    if settings.system_machine_type in machines:
        raise SettingsError(
            f"system_machine_type is '{settings.system_machine_type}' in {where(settings)}, which has accelerators; "
            f"the cluster's own pods run on CPUs: write one like e2-standard-4"
        )


def _project_rule(settings: GkeSettings) -> None:
    if ":" in settings.project:
        raise SettingsError(
            f"project is '{settings.project}' in {where(settings)}, and no source says what GKE calls the identity "
            f"pool of a domain-scoped project; use another project"
        )
