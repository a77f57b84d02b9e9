"""Where buckets lie, and whether hosts of a region may read text there without crossing regions. Pure.

Owns Google's places of several regions. Refuses to own asking a bucket (infra/artifacts/gcs.py) and what a bucket's
name alone tells (infra/names.py).
"""

from __future__ import annotations

from collections.abc import Sequence

# docs.cloud.google.com/storage/docs/locations: all regions whose names begin so, but for these; or a pair.
_MULTI_REGIONS = {"us": ("us-", ()), "eu": ("europe-", ("europe-west2", "europe-west6")), "asia": ("asia-", ())}
_PAIRS = {
    "nam4": ("us-central1", "us-east1"),
    "eur4": ("europe-north1", "europe-west4"),
    "eur5": ("europe-west1", "europe-west2"),
    "eur7": ("europe-west2", "europe-west3"),
    "eur8": ("europe-west3", "europe-west6"),
    "asia1": ("asia-northeast1", "asia-northeast2"),
}


def is_in(region: str, location: str) -> bool:
    """Whether a bucket's location (lower case) is that region, or has it among others."""
    beginning, without = _MULTI_REGIONS.get(location, ("", ()))
    of_many = bool(beginning) and region.startswith(beginning) and region not in without
    return region == location or of_many or region in _PAIRS.get(location, ())


def billed_reads(bucket: str, locations: Sequence[str]) -> str | None:
    """What text in a multi-region costs, which hosts in its regions may read; None where reading is free."""
    if not set(locations) & _MULTI_REGIONS.keys():
        return None
    return (
        f"data: bucket {bucket!r} lies in the multi-region {locations[0]}: Google bills what is read there, also by "
        f"hosts in its regions"
    )


def data_bucket_problem(bucket: str, locations: Sequence[str], region: str) -> str | None:
    """One sentence where text for hosts in `region` lies in a bucket that is elsewhere, by all of its locations."""
    if any(is_in(region, location) for location in locations):
        return None
    there = " and ".join(locations)
    return (
        f"data: bucket {bucket!r} lies in {there}, but the hosts are in {region}: their text would cross regions, "
        f"slowly, and Google bills each byte that leaves {there}, for every host and again for each that comes after a "
        f"preemption; push the text to a bucket in {region}, or to the foundation's own"
    )
