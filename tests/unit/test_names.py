"""Names by rule: valid for every project, region and prefix that can be, one sentence for those that cannot."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra import hardware, names
from infra.rules import google_checks

REGIONS = sorted({zone.rpartition("-")[0] for row in hardware.rows() for zone in row.zones})
LOWER = "abcdefghijklmnopqrstuvwxyz"
WORD = LOWER + "0123456789-"

ordinary = st.from_regex(r"[a-z][-a-z0-9]{4,28}[a-z0-9]", fullmatch=True)
domains = st.from_regex(r"([a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?\.){1,4}[a-z]{2,10}", fullmatch=True)
scoped = st.tuples(domains, st.from_regex(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?", fullmatch=True)).map(":".join)
projects = ordinary | scoped
regions = st.sampled_from([*REGIONS, "northamerica-northeast1", "australia-southeast2"])
prefixes = st.from_regex(rf"[a-z]([-a-z0-9]{{0,{names.PREFIX_LIMIT - 2}}}[a-z0-9])?", fullmatch=True).filter(
    lambda prefix: "goog" not in prefix
)


@given(projects, regions, prefixes)
def test_every_name_is_one_that_its_api_takes(project: str, region: str, prefix: str) -> None:
    made = names.of(project, region, prefix)
    for bucket in (*made.buckets.values(), made.state_bucket):
        assert google_checks.bucket_name_problem(bucket) is None
        assert bucket.startswith(f"{prefix}-")
    firewalls = (made.firewall_hosts, made.firewall_subnet, made.firewall_ssh, made.firewall_network_ssh)
    for compute in (made.network, made.subnet, made.router, made.nat, *firewalls):
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", compute)
    assert re.fullmatch(r"[a-z][-a-z0-9]{4,28}[a-z0-9]", made.account_id)
    for repository in (made.python_repository, made.mirror_repository, made.images_repository):
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", repository)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,63}", made.key_ring)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,255}", made.secret_id("wandb"))
    assert len(made.budget) <= 60
    assert re.fullmatch(r"[-a-z0-9]+@[-a-z0-9.]+\.iam\.gserviceaccount\.com", made.account_email)
    assert ":" not in made.images_url
    assert vars(made) == vars(names.of(project, region, prefix))


@given(projects, projects, regions, regions, prefixes)
def test_buckets_of_two_foundations_are_never_the_same(
    project: str, other: str, region: str, elsewhere: str, prefix: str
) -> None:
    first, second = names.of(project, region, prefix), names.of(other, elsewhere, prefix)
    if (project, region) != (other, elsewhere):
        assert not {*first.buckets.values(), first.state_bucket} & {*second.buckets.values(), second.state_bucket}
    if region != elsewhere:
        assert (first.network, first.account_id) != (second.network, second.account_id)


@given(st.text(max_size=40), st.text(max_size=30), st.text(max_size=30))
def test_anything_else_is_one_sentence(project: str, region: str, prefix: str) -> None:
    try:
        names.of(project, region, prefix)
    except names.NamesError as error:
        assert "\n" not in str(error)
        assert "; give " in str(error)


def test_names_of_an_ordinary_project() -> None:
    made = names.of("my-project", "us-central1", "slipway")
    assert vars(made) == {
        "project": "my-project",
        "region": "us-central1",
        "checkpoints_bucket": "slipway-checkpoints-us-central1-my-project",
        "data_bucket": "slipway-data-us-central1-my-project",
        "artifacts_bucket": "slipway-artifacts-us-central1-my-project",
        "state_bucket": "slipway-state-us-central1-my-project",
        "network": "slipway-us-central1",
        "subnet": "slipway-us-central1",
        "firewall_hosts": "slipway-us-central1-hosts",
        "firewall_subnet": "slipway-us-central1-subnet",
        "firewall_ssh": "slipway-us-central1-iap-ssh",
        "firewall_network_ssh": "slipway-us-central1-iap-ssh-network",
        "router": "slipway-us-central1",
        "nat": "slipway-us-central1-nat",
        "account_id": "slipway-us-central1",
        "python_repository": "slipway-python",
        "mirror_repository": "slipway-mirror",
        "images_repository": "slipway-images",
        "key_ring": "slipway",
        "state_key": "state",
        "budget": "slipway-us-central1",
        "secret_prefix": "slipway-us-central1",
    }
    assert made.account_email == "slipway-us-central1@my-project.iam.gserviceaccount.com"
    assert made.subnet_path == "projects/my-project/regions/us-central1/subnetworks/slipway-us-central1"
    assert made.secret_path("wandb") == "projects/my-project/secrets/slipway-us-central1-wandb/versions/latest"


def test_domain_scoped_project_works_in_names_urls_and_labels() -> None:
    made = names.of("example.com:x", "us-central1", "slipway")
    assert made.checkpoints_bucket == "slipway-checkpoints-us-central1-example-com-x-c2bd49a9"
    assert made.account_email == "slipway-us-central1@x.example.com.iam.gserviceaccount.com"
    assert made.images_url == "us-central1-docker.pkg.dev/example.com/x/slipway-images"
    assert made.network_path == "projects/example.com:x/global/networks/slipway-us-central1"
    assert names.label_value("example.com:x") == "example-com-x"


@pytest.mark.parametrize(
    ("project", "why"),
    [
        ("", "it has 0 characters"),
        ("short", "it has 5 characters"),
        ("a" * 31, "it has 31 characters"),
        ("My-Project", "it has upper-case letters"),
        ("123456789012", "it is a project's number"),
        ("my_project", "it begins, ends or goes on with a character that is not allowed there"),
        ("my-project-", "it begins, ends or goes on"),
        ("1st-project", "it begins, ends or goes on"),
        ("example:project", "only a domain may come before a ':'"),
        ("example.com:", "only a domain may come before a ':'"),
        ("my-project\n", "it begins, ends or goes on"),
    ],
)
def test_project_id_that_cannot_be_is_refused(project: str, why: str) -> None:
    with pytest.raises(names.NamesError, match=re.escape(f"project {project!r} cannot be a project id: {why}")):
        names.of(project, "us-central1", "slipway")


def test_project_whose_id_has_googles_word_gets_a_hash_in_names() -> None:
    """A bucket's name may not hold the word, a project's id may."""
    bucket = names.of("my-goog-project", "us-central1", "slipway").data_bucket
    assert google_checks.bucket_name_problem(bucket) is None
    assert bucket != names.of("my-googl-project", "us-central1", "slipway").data_bucket


def test_prefix_with_googles_word_is_refused() -> None:
    assert "has no 'google' in it" in str(names.prefix_problem("mygoogle"))


def test_zone_for_a_region_is_told_its_region() -> None:
    assert names.region_problem("us-central1-a") == "region 'us-central1-a' is a zone; give its region, us-central1"
    assert "cannot be a region" in str(names.region_problem("central"))


def test_prefix_over_the_limit_is_told_the_limit_and_what_has_it() -> None:
    assert names.prefix_problem("a" * names.PREFIX_LIMIT) is None
    assert names.prefix_problem("a" * 20) == (
        f"prefix '{'a' * 20}' has 20 characters; give at most 19, for '{'a' * 20}-<region>' has to fit into the 30 "
        f"characters of a service account's id"
    )


@given(st.text(max_size=120), st.from_regex(r"[a-z0-9][a-z0-9.-]{0,99}", fullmatch=True))
def test_labels_are_ones_that_google_takes(owner: str, stack: str) -> None:
    assert google_checks.label_problem(names.labels(owner, stack)) is None


@given(
    st.from_regex(r"[a-z0-9][a-z0-9.-]{0,99}", fullmatch=True),
    st.from_regex(r"[a-z0-9][a-z0-9.-]{0,99}", fullmatch=True),
)
def test_no_two_stacks_have_one_label(one: str, other: str) -> None:
    assert (names.stack_label(one) == names.stack_label(other)) is (one == other)


def test_bucket_outside_the_hosts_region_is_refused() -> None:
    assert names.bucket_problem("checkpoints", "mine", "US-CENTRAL1", "us-central1") is None
    for location in ("US", "us-east5"):
        said = names.bucket_problem("checkpoints", "mine", location, "us-central1")
        assert str(said).startswith(
            f"checkpoints: bucket 'mine' lies in {location.lower()}, but the hosts are in us-central1"
        )


def test_bucket_of_another_regions_foundation_is_refused_by_its_name() -> None:
    def refused(bucket: str) -> str | None:
        return names.misplaced_bucket("data", bucket, "my-project", "us-central1", "slipway", REGIONS)

    assert refused("gs://slipway-data-us-central1-my-project/corpus") is None
    assert refused("gs://somebody-elses") is None
    assert "lies in us-east5" in str(refused("gs://slipway-data-us-east5-my-project/corpus"))
