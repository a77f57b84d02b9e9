"""Keys of every stack that trains in Google's cloud, whichever target: where, in which network, as whom; their rules.

Owns what the hardware table, names and the file itself can tell. Refuses to own the terms (terms.py), what one service
asks for beyond that (infra/targets/<target>/settings.py), names (infra/names.py) and whether a zone has capacity, which
nobody knows before asking.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from infra import hardware, names
from infra.host_secrets import problem as secret_problem
from infra.names import SECRET_NAME, Names
from infra.rules import google_checks
from infra.rules.pool_checks import FLEX_START_LIMIT_S
from infra.stack_file.cloud_settings import CloudSettings
from infra.stack_file.settings import Absent, Settings, SettingsError, every, without
from infra.stack_file.terms import Terms, where
from infra.targets.places import Places, in_bucket, in_s3
from infra.tiers import Tier


def _labels(value: dict[str, str]) -> dict[str, str]:
    for key, text in value.items():
        if not names.LABEL_KEY.fullmatch(key) or not names.LABEL_VALUE.fullmatch(text):
            raise ValueError(
                f"label '{key}: {text}' is not one of Google's: at most {names.LABEL_LIMIT} of a-z, 0-9, '_' and '-' "
                f"each, the key from a letter"
            )
        if key in (names.OWNER_LABEL, names.STACK_LABEL, names.STATE_LABEL, names.MADE_LABEL):
            raise ValueError(f"label {key!r} is set by Slipway; leave it out")
    return value


def _tags(value: tuple[str, ...]) -> tuple[str, ...]:
    for tag in value:
        if not names.COMPUTE_NAME.fullmatch(tag):
            raise ValueError(
                f"{tag!r} is not a network tag: at most {names.COMPUTE_LIMIT} of a-z, 0-9 and '-', from a letter"
            )
    return value


def _word_problem(word: str) -> str | None:
    if re.fullmatch(r"[\x21-\x7e]{1,512}", word):
        return None
    return "spaces or characters beyond ASCII in it; give the name or path as `gcloud` prints it"


def _account_problem(account: str) -> str | None:
    if account != "default" and not account.endswith("-compute@developer.gserviceaccount.com"):
        return None
    return (
        "the project's default account, which may do almost anything in it; give one of its own, or leave the key out "
        "for the foundation's"
    )


type Word = Annotated[str, without(_word_problem)]  # a name or path


class CloudTrainingSettings(CloudSettings, Terms):
    """A stack that trains in Google's cloud."""

    region: Absent[str] = None
    """Where it trains, in any of the accelerator's zones there; `zones` says which."""
    zones: tuple[str, ...] = ()
    """Zones of one region, in the order to try them."""
    network: Absent[Word] = None
    """Another network than the foundation's; goes with `subnet`."""
    subnet: Absent[Word] = None
    """Another subnet than the foundation's; goes with `network`."""
    service_account: Absent[Annotated[Word, without(_account_problem)]] = None
    """E-mail of another service account for the hosts than the foundation's."""
    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)
    """Labels of the nodes, beside those of owner and stack."""
    tags: Annotated[tuple[str, ...], AfterValidator(_tags)] = ()
    """Network tags of the nodes."""
    reservation: Absent[Word] = None
    """The reservation of tier reserved: its name, or its path - of TPU VMs
    projects/<project>/locations/<zone>/reservations/<name> (folders/..., organizations/... too; `-` is any), of GKE and
    Vertex AI projects/<project>/zones/<zone>/reservations/<name>."""
    host_secrets: tuple[Annotated[str, Field(pattern=f"^{SECRET_NAME.pattern}$"), without(secret_problem)], ...] = ()
    """Secrets of the foundation that hosts read at their start, by name - wandb, huggingface, ..."""

    @property
    def place(self) -> str:
        """The region that all zones are in."""
        return self.zones[0].rpartition("-")[0]

    @property
    def regions_in_order(self) -> tuple[str, ...]:
        """Where it is asked for, in this order, where a request is of a region; none where it is of a zone."""
        return ()

    @property
    def billed_in(self) -> str:
        return self.project

    @property
    def names(self) -> Names:
        return names.of(self.project, self.place, self.prefix)

    @property
    def places(self) -> Places:
        """In the foundation's buckets, of which the stack may name others."""
        names = self.names
        placed = self.placed(f"gs://{names.artifacts_bucket}", f"gs://{names.checkpoints_bucket}/{self.stack}")
        return dataclasses.replace(placed, region=self.place)

    @property
    def buckets_named(self) -> dict[str, str]:
        """Buckets that keys of the stack name, by key: its places, data, or a checkpoint to start from."""
        keys = ("data", "artifacts", "artifacts_on_hosts", "runs")
        given = {key: getattr(self, key) for key in keys}
        given |= {f"training.{key}": value for key, value in self.training.items()}
        return {
            key: value.removeprefix("gs://").partition("/")[0]
            for key, value in given.items()
            if isinstance(value, str) and value.startswith("gs://")
        }

    @property
    def all_labels(self) -> dict[str, str]:
        return self.labels | names.labels(self.owner, self.stack)

    def mirrored(self, image: str) -> str:
        """One of Docker Hub by the foundation's mirror, which machines without internet reach; others as they are."""
        first, slash, _ = image.partition("/")
        if slash and ("." in first or ":" in first or first == "localhost"):
            return image
        return f"{self.names.mirror_url}/{image if slash else f'library/{image}'}"

    @model_validator(mode="after")
    def _zones_of_region(self) -> CloudTrainingSettings:
        if self.zones or not self.region:
            return self
        try:
            row = self.row
        except hardware.UnknownAcceleratorError:
            return self  # said with the nearest names by infra/stack_file/settings.py
        there = [zone for zone in row.zones_documented + row.zones if zone.rpartition("-")[0] == self.region]
        return self.model_copy(update={"zones": tuple(dict.fromkeys(there))})

    def check_place(self) -> None:
        super().check_place()
        for rule in (_zone_rule, _spot_rule, _tier_rule, _network_rule, _bucket_rule, _places_rule):
            rule(self)


def how_to_make_foundation(settings: CloudTrainingSettings) -> str:
    """What to run where the foundation of a stack is not there yet; other stacks' mistakes are theirs to say."""
    region, project, prefix = settings.place, settings.project, settings.prefix
    for found in every(CloudSettings, skip_unusable=True):
        if not isinstance(found, Settings) and found.place == region:
            make = f"run: pulumi up --stack {found.stack}"
            if (found.project, found.prefix) == (project, prefix):
                return make
            return f"write project {project} and prefix {prefix} into {where(found)}, and {make}"
    return (
        f"copy a stacks/Pulumi.foundation.*.yaml to stacks/Pulumi.foundation.{region}.yaml, write region {region} and "
        f"project {project} into it, and run: pulumi up --stack foundation.{region}"
    )


def _zone_rule(settings: CloudTrainingSettings) -> None:
    row, zones = settings.row, settings.zones
    known = ", ".join(row.zones_documented) or ", ".join(row.zones)
    if not zones:
        if settings.region and (problem := google_checks.region_problem(settings.region)):
            raise SettingsError(f"{problem} ({where(settings)}); {row.name} is in: {known}")
        said = f"region '{settings.region}' has no zone with {row.name}" if settings.region else "zones is empty"
        raise SettingsError(f"{said} in {where(settings)}; {row.name} is in: {known}")
    for zone in zones:
        if not re.fullmatch(r"[a-z]+(-[a-z]+)+\d+-[a-z0-9]+", zone):
            raise SettingsError(f"zones has '{zone}' in {where(settings)}, which is no zone; {row.name} is in: {known}")
    regions = dict.fromkeys(zone.rpartition("-")[0] for zone in zones)
    if len(regions) > 1:
        raise SettingsError(
            f"zones lie in {len(regions)} regions ({', '.join(regions)}) in {where(settings)}; checkpoints and data "
            f"are in one: keep the zones of one, and make a second stack for the other"
        )
    if settings.region and settings.region not in regions:
        raise SettingsError(
            f"region is '{settings.region}' but zones are in '{settings.place}' in {where(settings)}; leave region out"
        )
    if len(set(zones)) < len(zones):
        raise SettingsError(f"zones names a zone twice in {where(settings)}; name each once, in the order to try them")
    for zone in zones:
        if zone not in row.zones:
            raise SettingsError(f"zones has '{zone}' in {where(settings)}, which has no {row.name}; it is in: {known}")


def _spot_rule(settings: CloudTrainingSettings) -> None:
    row, tier = settings.row, settings.tier
    if tier is Tier.SPOT:
        quota, price = row.quota(settings.api), row.price(settings.place)
        has_spot = price is not None and price.spot_usd is not None
        if quota and quota.spot is None and not has_spot:
            raise SettingsError(
                f"tier is 'spot' in {where(settings)}, but no spot {row.name} is known; write on-demand"
            )
        if price and price.spot_usd is None and settings.price_usd_per_chip_hour is None:
            has = ", ".join(price.region for price in row.prices if price.spot_usd is not None)
            raise SettingsError(
                f"tier is 'spot' in {where(settings)}, but no spot {row.name} is listed in {settings.place}; choose a "
                f"region of {has}, or write on-demand, or, if you know better, its price_usd_per_chip_hour"
            )


def _tier_rule(settings: CloudTrainingSettings) -> None:
    tier = settings.tier
    if tier is Tier.FLEX_START and not 0 < (settings.max_runtime or 0) <= FLEX_START_LIMIT_S:
        raise SettingsError(
            f"tier is 'flex-start' in {where(settings)}, which gives a slice for at most 7 days; write how long "
            f"it is wanted, like `slipway:max_runtime: 24h`"
        )
    if settings.reservation and tier not in (Tier.RESERVED, Tier.GUARANTEED):
        raise SettingsError(
            f"reservation is '{settings.reservation}' in {where(settings)}, but tier '{tier}' takes none; "
            f"write `tier: reserved`"
        )


def check_reservation_zone(settings: CloudTrainingSettings, zone: str) -> None:
    """Raises SettingsError where a reservation in that zone cannot serve the stack."""
    if settings.zones != (zone,):
        raise SettingsError(
            f"reservation is in zone '{zone}', but zones are {', '.join(settings.zones)} in "
            f"{where(settings)}; write `zones: [{zone}]`: a reservation is of one zone"
        )


def _network_rule(settings: CloudTrainingSettings) -> None:
    if (settings.network is None) != (settings.subnet is None):
        raise SettingsError(
            f"network and subnet go together in {where(settings)}; give both, or neither for the foundation's"
        )
    region = re.search(r"regions/([^/]+)/", settings.subnet or "")
    if region and region[1] != settings.place:
        raise SettingsError(
            f"subnet is in region '{region[1]}', but zones are in '{settings.place}' in {where(settings)}"
        )


def _bucket_rule(settings: CloudTrainingSettings) -> None:
    """What names alone tell of where a bucket is; `slipway doctor` asks where the others are."""
    if not settings.buckets_named:
        return
    regions = {zone.rpartition("-")[0] for row in hardware.rows("tpu") for zone in row.zones}
    for key, bucket in settings.buckets_named.items():
        problem = names.misplaced_bucket(
            key, bucket, settings.project, settings.place, settings.prefix, sorted(regions)
        )
        if problem:
            raise SettingsError(f"{problem} ({where(settings)})")


def _places_rule(settings: CloudTrainingSettings) -> None:
    for key in ("artifacts", "artifacts_on_hosts", "runs"):
        place = getattr(settings, key) or ""
        # Emulated hosts are processes of this machine; any host may have a mirror mounted.
        is_directory = place and not in_bucket(place) and key != "artifacts_on_hosts" and not settings.row.emulated
        if is_directory or in_s3(place):
            raise SettingsError(
                f"{key} is '{place}' in {where(settings)}, which hosts in the cloud do not reach: give "
                f"gs://bucket[/path], or leave it out for the foundation's"
            )
