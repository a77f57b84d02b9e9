"""The hardware table: invariants of every row, names that are not in it, and what `slipway hardware` prints."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from infra.commands.hardware import as_text
from infra.commands.main import app
from infra.hardware import TABLE, Accelerator, Api, QuotaScope, QuotaUnit, UnknownAcceleratorError, emulated, find, rows
from infra.stack_file.settings import SettingsError, from_text

DOCUMENT: dict[str, Any] = yaml.safe_load(TABLE.read_text())
FAMILIES: dict[str, dict[str, Any]] = DOCUMENT["families"]
FAMILY_KEYS = {
    "title", "platform", "chip", "counts", "cores_per_chip", "devices_per_chip", "chips_per_host", "apis",
    "accelerator_type", "gke_accelerator", "vertex_accelerator", "runtime_version", "nic_gbits_per_chip",
    "nic_gbits_per_host", "data_nics", "source", "machine_type", "machine_types", "zones_documented", "zones_listed",
    "prices", "quotas", "sizes", "emulated", "gke_version", "gke_boot_disk", "gke_workload_policy", "gpu_network",
}  # fmt: skip
SIZE_KEYS = {"topology", "hosts", "chips_per_host", "machine_type", "apis"}
ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-([a-f]|ai[0-9]+[a-z])")
ROWS = pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)


# --- the file -------------------------------------------------------------------------------------------------------


def test_every_size_is_a_row_and_no_name_is_written_twice() -> None:
    names = [name for family in FAMILIES.values() for name in family["sizes"]]
    assert [row.name for row in rows()] == [name for name in names if not find(name).emulated]
    assert len(set(names)) == len(names)
    for name in names:  # YAML would keep the second silently
        assert len(re.findall(rf"(?<![\w-]){re.escape(name)}: ", TABLE.read_text())) == 1, name


def test_no_key_is_misspelled_and_every_source_is_listed_and_used() -> None:
    used = set[str]()
    for name, family in FAMILIES.items():
        assert set(family) <= FAMILY_KEYS, name
        for size in family["sizes"].values():
            assert not isinstance(size, dict) or set(size) <= SIZE_KEYS
        parts = [family, DOCUMENT["chips"].get(family.get("chip"), {}), *family.get("quotas", {}).values()]
        for part in [*parts, family.get("prices", {})]:
            source = part.get("source", [])
            used |= {source} if isinstance(source, str) else set(source)
    assert used == set(DOCUMENT["sources"])


def test_families_are_these_and_tpus_come_in_every_size() -> None:
    assert set(FAMILIES) == {"cpu", "vcpu", "v5e", "v5p", "v6e", "tpu7x", "a3-mega", "a3-high", "a3-ultra", "h100"}
    for family in ("v5e", "v6e"):
        assert [row.chips for row in rows(family)] == [1, 4, 8, 16, 32, 64, 128, 256]


# --- every row ------------------------------------------------------------------------------------------------------


@ROWS
def test_counts_agree(row: Accelerator) -> None:
    assert row.chips == row.hosts * row.chips_per_host > 0
    assert row.devices == row.chips * row.devices_per_chip == row.hosts * row.devices_per_host
    assert row.topology is None or math.prod(row.topology) == row.chips
    assert (row.topology is not None) == (row.platform == "tpu")
    assert row.machine is None or row.machine.chips == row.chips_per_host


@ROWS
def test_the_spelling_counts_what_its_vendor_counts(row: Accelerator) -> None:
    if row.platform == "cpu":
        assert row.name == f"cpu-{row.chips}"
        return
    counted = {"chips": row.chips, "cores": row.chips * row.cores_per_chip, "nodes": row.hosts}
    assert row.name == f"{row.family}-{counted[FAMILIES[row.family]['counts']]}"
    if row.accelerator_type:
        assert row.accelerator_type.rpartition("-")[2] == row.name.rpartition("-")[2]


@ROWS
def test_it_is_offered_somewhere_and_has_what_that_place_asks_for(row: Accelerator) -> None:
    assert row.apis
    assert (row.accelerator_type is not None) == (Api.QUEUED_RESOURCE in row.apis)
    assert (row.platform == "cpu") == (row.apis == (Api.LOCAL,))
    if Api.QUEUED_RESOURCE in row.apis:
        assert row.runtime_version
    if Api.GKE in row.apis:
        assert row.machine and row.gke_accelerator
    if Api.VERTEX in row.apis:
        assert row.machine
    if row.platform == "gpu" and Api.VERTEX in row.apis:
        assert row.vertex_accelerator


@ROWS
def test_prices_are_positive_or_unknown_never_zero_and_say_who_says_so(row: Accelerator) -> None:
    assert len({price.region for price in row.prices}) == len(row.prices)
    for price in row.prices:
        known = [usd for usd in (price.on_demand_usd, price.spot_usd) if usd is not None]
        assert known and all(0 < usd < 50 for usd in known)
        assert known == sorted(known, reverse=True), "spot costs more than on demand"
        assert price.source.title
        assert price.source.date or (price.source.read and "commit" in price.source.title), "a price needs a date"
        assert price.region in {zone.rpartition("-")[0] for zone in row.zones}


@ROWS
def test_zones_belong_to_regions(row: Accelerator) -> None:
    assert set(row.zones_documented) <= set(row.zones)
    assert all(ZONE.fullmatch(zone) for zone in row.zones)
    assert len(set(row.zones)) == len(row.zones)


@ROWS
def test_quotas_say_what_they_count(row: Accelerator) -> None:
    assert {quota.api for quota in row.quotas} <= set(row.apis)
    for quota in row.quotas:
        assert quota.units == row.chips * (row.cores_per_chip if quota.unit is QuotaUnit.CORES else 1)
        assert quota.on_demand or quota.spot
        assert (quota.scope is QuotaScope.ZONE) == (quota.api is Api.QUEUED_RESOURCE)


@ROWS
def test_figures_are_positive_or_unknown(row: Accelerator) -> None:
    figures = (row.hbm_gib, row.hbm_gbytes_per_s, row.peak_bf16_tflops, row.peak_int8_tops, row.peak_fp8_tflops,
               row.ici_gbytes_per_s, row.nic_gbits_per_host, row.data_nics)  # fmt: skip
    assert all(figure is None or figure > 0 for figure in figures)
    assert row.platform == "cpu" or (row.hbm_gib and row.peak_bf16_tflops), "fit and MFU need them"
    for faster in (row.peak_int8_tops, row.peak_fp8_tflops):
        assert faster is None or row.peak_bf16_tflops is None or 1 <= faster / row.peak_bf16_tflops <= 2
    assert row.sources


# --- single rows that are easy to get wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "chips", "devices", "hosts", "topology", "machine"),
    [
        ("v5e-8", 8, 8, 1, "2x4", "ct5lp-hightpu-8t"),
        ("v5e-16", 16, 16, 4, "4x4", "ct5lp-hightpu-4t"),
        ("v6e-1", 1, 1, 1, "1x1", "ct6e-standard-1t"),
        ("v6e-8", 8, 8, 1, "2x4", "ct6e-standard-8t"),
        ("v6e-32", 32, 32, 8, "4x8", "ct6e-standard-4t"),
        ("v5p-128", 64, 64, 16, "4x4x4", "ct5p-hightpu-4t"),
        ("tpu7x-64", 32, 64, 8, "2x4x4", "tpu7x-standard-4t"),
        ("a3-mega-2", 16, 16, 2, None, "a3-megagpu-8g"),
        ("h100-4", 32, 32, 4, None, None),
        ("cpu-8", 8, 8, 2, None, None),
    ],
)
def test_rows_as_their_vendors_describe_them(
    name: str, chips: int, devices: int, hosts: int, topology: str | None, machine: str | None
) -> None:
    row = find(name)
    assert (row.chips, row.devices, row.hosts, row.topology_text) == (chips, devices, hosts, topology)
    assert (row.machine.name if row.machine else None) == machine


def test_the_cloud_tpu_api_spells_v5e_differently() -> None:
    assert find("v5e-16").accelerator_type == "v5litepod-16"
    assert find("v6e-16").accelerator_type == "v6e-16"
    assert find("tpu7x-16").accelerator_type is None
    assert find("v5p-17920").accelerator_type is None


def test_a_price_of_a_vm_is_shared_by_its_chips_and_quota_of_v5p_counts_cores() -> None:
    price = find("a3-mega-2").price("us-central1")
    assert price and price.on_demand_usd == pytest.approx(92.21 / 8)
    quota = find("v5p-128").quota(Api.QUEUED_RESOURCE)
    assert quota and (quota.units, quota.unit) == (128, QuotaUnit.CORES)
    assert find("v6e-32").price("mars-north1") is None
    assert find("tpu7x-64").prices == ()


# --- names that are not rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v6e-33", "accelerator 'v6e-33' is not in infra/hardware.yaml; nearest: v6e-32, v6e-16. see "),
        ("v5p-4", "nearest: v5p-8, v5p-16"),
        ("cpu-9", "nearest: cpu-8, cpu-4"),
        ("a3-mega-3", "nearest: a3-mega-2, a3-mega-4"),
        ("v5litepod-16", "nearest: v5e-16."),
        ("tpu7x-4x4x4", "nearest: tpu7x-128."),
        ("v6e-8x32", "accelerator 'v6e-8x32' is 32 slices; write `accelerator: v6e-8` and `slices: 32`"),
        ("v4-32", "accelerator 'v4-32' is TPU v4, which is not supported; it has 16 chips, "
                  "nearest: v5e-16, v5p-32, v6e-16, tpu7x-32 (16 chips)"),
        ("v3-8", "TPU v3, which is not supported; it has 4 chips, nearest: v5e-4, v5p-8, v6e-4, tpu7x-8 (4 chips)"),
        ("v2-512", "it has 256 chips, nearest: v5e-256, v5p-512, v6e-256, tpu7x-512 (256 chips)"),
        ("v4-24", "it has 12 chips, nearest: v5e-16, v5p-32, v6e-16, tpu7x-32 (16 chips)"),
        ("v4", "accelerator 'v4' is TPU v4, which is not supported; use a size of v5e, v5p, v6e, tpu7x"),
        ("", "nearest: "),
        ("v6e-" + "9" * 5000, "nearest: "),
    ],
)  # fmt: skip
def test_a_name_that_is_no_row_is_refused_with_the_nearest(name: str, message: str) -> None:
    with pytest.raises(UnknownAcceleratorError) as caught:
        find(name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_target_local_refuses_what_is_not_on_this_machine() -> None:
    stack = "config: {'slipway:target': local, 'slipway:accelerator': v6e-8, 'slipway:steps': 3}"
    with pytest.raises(SettingsError) as caught:
        from_text("local", stack)
    assert str(caught.value) == "accelerator 'v6e-8' is not on this machine; target local takes cpu-N rows"


def test_an_emulated_accelerator_is_among_others_only_by_its_name() -> None:
    assert [row.name for row in emulated()] == ["vcpu-1", "vcpu-2", "vcpu-4"] == names("vcpu")
    for row in emulated():
        assert row not in (*rows(), *rows("cpu"), *rows(Api.QUEUED_RESOURCE))
        apis = (Api.QUEUED_RESOURCE, Api.VERTEX)
        assert (row.platform, row.apis, row.accelerator_type) == ("cpu", apis, row.name)
        assert row.chips == row.hosts * row.chips_per_host == int(row.name.rpartition("-")[2])
        assert row.zones and not row.prices and not row.quotas


# --- slipway hardware -----------------------------------------------------------------------------------------------


def names(pattern: str) -> list[str]:
    return [row.name for row in rows(pattern)]


def test_a_filter_is_a_name_a_kind_or_a_part_of_a_name() -> None:
    assert names("v6e-1") == ["v6e-1"]
    assert names("v6e") == list(FAMILIES["v6e"]["sizes"])
    assert {row.family for row in rows("vertex")} == {"v5e", "v6e", "a3-mega", "a3-high", "a3-ultra"}
    assert {row.family for row in rows("tpu")} == {"v5e", "v5p", "v6e", "tpu7x"}
    assert {row.family for row in rows("a3")} == {"a3-mega", "a3-high", "a3-ultra"}
    assert names("nothing like it") == []


def test_the_table_prints_unknown_where_no_source_says_it_and_a_dash_where_nothing_can() -> None:
    lines = {line.split()[0]: line.split() for line in as_text("", None).splitlines() if line}
    assert lines["accelerator"][:4] == ["accelerator", "chips", "devices", "hosts"]
    assert lines["v6e-32"] == [
        "v6e-32", "32", "32", "8", "4x8", "ct6e-standard-4t", "32", "918", "1,836", "918", "2.70", "0.27",
        "queued_resource,", "gke,", "vertex",
    ]  # fmt: skip
    assert lines["tpu7x-64"][4:] == [
        "2x4x4", "tpu7x-standard-4t", "192", "2,307", "unknown", "4,614", "unknown", "unknown", "gke",
    ]  # fmt: skip
    assert lines["a3-mega-2"][1:5] == ["16", "16", "2", "-"]
    assert lines["h100-2"][4:] == ["-", "unknown", "80", "989", *["unknown"] * 4, "kubernetes"]
    assert lines["cpu-8"][4:] == [*["-"] * 8, "local"]
    assert "0.00" not in as_text("", None)


def test_a_narrow_terminal_gets_fewer_columns_and_no_cut_figure() -> None:
    text = as_text("v5p", 80)
    assert "…" not in text
    assert "offered by" not in text and "machine" not in text
    assert "8x16x20" in text and "4.20" in text
    assert "offered by" in as_text("v5p", 200)


def test_one_row_is_printed_with_everything_and_its_sources() -> None:
    text = as_text("v5p-128", None)
    assert re.search(r"^chips +64 = 16 x 4 \(hosts x chips per host\)$", text, re.MULTILINE)
    assert re.search(r"^\$ per chip hour +us-central1: 4.20 on demand, 0.78 spot$", text, re.MULTILINE)
    assert "TPUV5PPerProjectPerZoneForTPUAPI" in text and "128 cores per zone" in text
    assert "int8 unknown TOP/s" in text
    assert "vms.csv at commit 2c3d7ea7, date unknown, read 2026-11-21" in text
    assert "AI-Hypercomputer/xpk commit 367c8382, 2026-06-25" in text


def test_the_command_prints_plain_text_or_json_when_piped() -> None:
    run = CliRunner().invoke(app, ["hardware", "v5e"])
    assert run.exit_code == 0
    assert "\x1b" not in run.output
    assert "v5e-256" in run.output
    as_json = json.loads(CliRunner().invoke(app, ["hardware", "v5p-8", "--json"]).output)
    assert [(row["name"], row["chips"], row["topology"], row["machine"]["chips"]) for row in as_json] == [
        ("v5p-8", 4, "2x2x1", 4)
    ]
    assert as_json[0]["sources"][1]["date"] == "2026-06-25"


def test_the_command_refuses_an_unknown_name_in_one_sentence() -> None:
    run = CliRunner().invoke(app, ["hardware", "v4-8"])
    assert run.exit_code == 2
    assert "accelerator 'v4-8' is TPU v4, which is not supported" in run.output.replace("\n", " ")
    assert "Traceback" not in run.output
