"""Where a bucket lies, against where hosts are: regions, Google's places of several, and pairs that somebody chose."""

from __future__ import annotations

import pytest

from infra.bucket_places import billed_reads, data_bucket_problem, is_in


@pytest.mark.parametrize(
    ("region", "location", "expected"),
    [
        ("us-east5", "us-east5", True),
        ("us-east5", "us-east1", False),
        ("us-east5", "us", True),
        ("europe-west4", "us", False),
        ("europe-west4", "eu", True),
        ("europe-west2", "eu", False),  # London is not of the European Union
        ("asia-northeast1", "asia", True),
        ("us-central1", "nam4", True),
        ("us-east5", "nam4", False),
        ("us-east5", "a-place-of-tomorrow", False),
    ],
)
def test_a_region_is_in_what_google_has_of_larger_places(region: str, location: str, expected: bool) -> None:
    assert is_in(region, location) is expected


def test_text_elsewhere_is_refused_with_what_it_costs() -> None:
    assert data_bucket_problem("mine", ["us-east1", "us-east5"], "us-east5") is None
    assert data_bucket_problem("mine", ["us"], "us-east5") is None
    assert data_bucket_problem("mine", ["europe-west4"], "us-east5") == (
        "data: bucket 'mine' lies in europe-west4, but the hosts are in us-east5: their text would cross regions, "
        "slowly, and Google bills each byte that leaves europe-west4, for every host and again for each that comes "
        "after a preemption; push the text to a bucket in us-east5, or to the foundation's own"
    )


def test_reading_is_billed_in_a_multi_region_and_free_in_a_region_and_in_a_pair() -> None:
    assert billed_reads("mine", ["us"]) == (
        "data: bucket 'mine' lies in the multi-region us: Google bills what is read there, also by hosts in its regions"
    )
    assert billed_reads("mine", ["us-east5"]) is None
    assert billed_reads("mine", ["nam4"]) is None
