"""Stack files of target gke-tpu: what follows from them, and one sentence with the fix for what cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from infra.paths import STACKS
from infra.preview.stack_plan import decide
from infra.stack_file.settings import SettingsError, check
from infra.targets.gke_tpu.settings import GkeTpuSettings


def made(stack: str = "gke-v6e-32", name: str = "", **changes: Any) -> GkeTpuSettings:
    """A shipped stack, as it would be with these changes, under another name if one is given."""
    config: dict[str, Any] = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in config.items()} | changes
    found = check(name or stack, {key: value for key, value in values.items() if value is not None})
    assert isinstance(found, GkeTpuSettings)
    return found


@pytest.mark.parametrize(
    ("stack", "lines"),
    [
        (
            "gke-v5e-16",
            ("16 chips = 1 slice x 4 hosts x 4 (v5e-16, 4x4, ct5lp", "TPU_LITE_PODSLICE_V5: 16"),
        ),
        (
            "gke-v6e-16x4",
            ("64 chips = 4 slices x 4 hosts x 4", "TPUS_PER_TPU_FAMILY (tpu_family=CT6E): 64 chips"),
        ),
        ("gke-v6e-32.spot", ("tier    spot", "quota   unknown: 32 chips in us-east5")),
        (
            "gke-tpu7x-8",
            ("4 chips = 1 slice x 1 host x 4 (tpu7x-8, 2x2x1,", "no source prices on-demand tpu7x"),
        ),
        ("gke-tpu7x-16", ("8 chips = 1 slice x 2 hosts x 4 (tpu7x-16, 2x2x2,", "1 pool of 2 x tpu7x-standard-4t")),
        (
            "gke-tpu7x-64.flex",
            ("no source prices tier flex-start", "4 google.com/tpu each"),
        ),
    ],
)
def test_a_preview_says_size_price_quota_and_what_is_made(stack: str, lines: tuple[str, ...]) -> None:
    said = "\n".join(decide(made(stack)).notices)
    assert [line for line in lines if line not in said] == []


def test_a_slice_may_be_spelled_by_its_topology() -> None:
    spelled = made("gke-tpu7x-16", accelerator="tpu7x-2x2x2")
    assert spelled == made("gke-tpu7x-16")
    assert (spelled.row.name, spelled.row.hosts) == ("tpu7x-16", 2)


def test_names_are_within_googles_limits_and_no_two_stacks_share_them() -> None:
    stacks = [made(name=f"gke-v6e-32.{'long' * 5}{letter}") for letter in "ab"]
    for names in ([each.cluster_name for each in stacks], [each.account_id("nodes") for each in stacks]):
        assert len(set(names)) == 2
    assert all(len(each.cluster_name) <= 40 and len(each.account_id("nodes")) <= 30 for each in stacks)
    assert made().cluster_name == "slipway-gke-v6e-32"
    assert made("gke-v6e-32.spot").cluster_name == "slipway-gke-v6e-32--spot"


@pytest.mark.parametrize(
    ("stack", "changes", "version"),
    [
        ("gke-v6e-32", {}, None),
        ("gke-tpu7x-64", {}, "1.34.0-gke.2201000"),
        ("gke-tpu7x-64.flex", {}, "1.34.0-gke.2201000"),
        ("gke-v6e-32", {"tier": "flex-start", "max_runtime": "7d"}, "1.33.0-gke.1712000"),
    ],
)
def test_the_oldest_version_is_what_accelerator_and_tier_need(
    stack: str, changes: dict[str, Any], version: str | None
) -> None:
    assert made(stack, **changes).minimum_version == version


@pytest.mark.parametrize("version", ["1.34", "1.34.0-gke.2201000", "1.34.1-gke.1", "1.35.0-gke.1", "1.34.10"])
def test_a_version_that_is_new_enough_is_taken(version: str) -> None:
    assert made("gke-tpu7x-64", cluster_version=version).cluster_version == version


FLEX: dict[str, Any] = {"tier": "flex-start", "max_runtime": "24h"}
RESERVED: dict[str, Any] = {"tier": "reserved", "reservation": "ours"}


@pytest.mark.parametrize(
    ("stack", "changes", "sentence"),
    [
        ("gke-v6e-32", {"accelerator": "tpu7x-3x3x3"}, "accelerator 'tpu7x-3x3x3' is not in infra/hardware.yaml"),
        ("gke-v6e-32", {"accelerator": "h100-2"}, "accelerator 'h100-2' is not offered as nodes of GKE"),
        (
            "gke-v6e-32",
            {"accelerator": "a3-mega-2", "zones": ["us-central1-a"]},
            "accelerator 'a3-mega-2' is no TPU, and target gke-tpu makes pools of TPUs alone",
        ),
        ("gke-v6e-32", {"zones": ["us-east5-a", "us-east5-b"]}, "but a pool is made in one and does not try another"),
        ("gke-v6e-32", {"zones": ["us-west4-a"]}, "zones has 'us-west4-a'"),
        ("gke-v6e-32", {"tier": "guaranteed"}, "tier is 'guaranteed' in stacks/Pulumi.gke-v6e-32.yaml, which GKE does"),
        ("gke-v6e-32", {"tier": "reserved"}, "but which? write `slipway:reservation: <name>`"),
        ("gke-v6e-32", {"reservation": "ours"}, "but tier 'on-demand' takes none; write `tier: reserved`"),
        ("gke-v6e-32", RESERVED | {"reservation": "Ours!"}, "reservation is 'Ours!' in stacks/Pulumi.gke-v6e-32.yaml"),
        (
            "gke-v6e-32",
            RESERVED | {"reservation": "projects/shared/zones/us-east5-a/reservations/ours"},
            "reservation is in zone 'us-east5-a', but zones are us-east5-b",
        ),
        ("gke-tpu7x-64.flex", {"max_runtime": "8d"}, "which gives a slice for at most 7 days; write how long"),
        ("gke-tpu7x-64.flex", {"max_runtime": None}, "which gives a slice for at most 7 days; write how long"),
        ("gke-v6e-32", {"queued_provisioning": True}, "but tier is 'on-demand'; only nodes of flex-start are queued"),
        ("gke-tpu7x-64.flex", {"queued_provisioning": True}, "but nobody asks for the nodes; write the queue of Kueue"),
        (
            "gke-tpu7x-64",
            {"cluster_version": "1.33.5-gke.1308000"},
            "cluster_version is 1.33.5-gke.1308000 in stacks/Pulumi.gke-tpu7x-64.yaml, but tpu7x needs GKE 1.34",
        ),
        (
            "gke-v6e-32",
            FLEX | {"cluster_version": "1.33.0-gke.1"},
            "but tier flex-start needs GKE 1.33.0-gke.1712000 or newer",
        ),
        (
            "gke-v6e-32",
            {"cluster_version": "latest"},
            "cluster_version is 'latest' in stacks/Pulumi.gke-v6e-32",
        ),
        (
            "gke-v6e-32",
            {"system_machine_type": "ct6e-standard-4t"},
            "which has accelerators; the cluster's own pods",
        ),
        ("gke-v6e-32", {"system_machine_type": "ct6e-standard-3t"}, "'ct6e-standard-3t' is not in infra/hardware.yaml"),
        ("gke-v6e-32", {"system_machine_type": "big"}, "machine type 'big' is not in infra/hardware.yaml"),
        ("gke-v6e-32", {"release_channel": "nightly"}, "release_channel is 'nightly'"),
        ("gke-v6e-32", {"workload": "vms"}, "workload is 'vms'"),
        ("gke-v6e-32", {"project": "example.com:x"}, "no source says what GKE calls the identity pool"),
        ("gke-v6e-32", {"service_account": "default"}, "the project's default account"),
        ("gke-v6e-32", {"context": "mine"}, "unknown key 'context'"),
    ],
)
def test_what_cannot_be_is_one_sentence(stack: str, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        made(stack, **changes)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_that_kubernetes_would_cut_is_refused_with_what_to_shorten() -> None:
    with pytest.raises(SettingsError, match=r"Kubernetes allows 63; shorten the stack's name by \d+ \("):
        made(name=f"gke-v6e-32.{'long' * 10}")


@pytest.mark.parametrize("accelerator", ["tpu7x-16", "tpu7x-2x2x2"])
def test_ironwood_is_no_tpu_vm(accelerator: str) -> None:
    values = {"target": "tpu-vm", "project": "my-project", "owner": "me@example.com", "accelerator": accelerator}
    more = {"zones": ["us-central1-c"], "steps": 1, "data": "synthetic", "training": {"per_device_batch_size": 1}}
    with pytest.raises(SettingsError, match=r"accelerator 'tpu7x-16' is not offered as a TPU VM, only by: gke; choose"):
        check("tpu7x-16", values | more)
