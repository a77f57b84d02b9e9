"""Every shipped stack plans, is named after its content, and is what `slipway stack new` would write."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from infra import hardware, paths
from infra.commands import preview
from infra.commands import stack as stack_command
from infra.commands.main import app
from infra.emulated import TPU
from infra.gke.settings import GkeSettings
from infra.hardware import Api
from infra.paths import STACKS
from infra.preview import compare, planned_changes
from infra.preview.new_stack import MODELS, SALT, NewStack, model_for, text
from infra.preview.stack_plan import decide, facts_of
from infra.runs import run_plan
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import SettingsError, any_from_file, check, from_text, stack_names
from infra.targets.kubernetes.settings import KubernetesSettings
from infra.targets.local.settings import LocalSettings
from infra.targets.registry import Target
from infra.targets.tpu_vm.plan import host_script, request_inputs, requested
from infra.targets.tpu_vm.provider.tpu_inputs import body, problems
from infra.targets.tpu_vm.settings import TpuVmSettings
from infra.targets.vertex.settings import VertexSettings
from infra.tiers import Tier
from infra.vm_hosts.startup_script import HEADER, startup_script
from tests.suite.soak import cases
from training.run_spec import parse
from training.sharding import resolve_mesh

PROMISED = (
    *("v5e-8", "v5e-16", "v5e-64", "v5e-128", "v5e-256", "v5e-256.spot", "v5p-128"),
    *("v6e-8", "v6e-32", "v6e-256", "v6e-8x16", "v6e-8x32", "v6e-32.spot"),
)
ON_GKE = (
    *("gke-v5e-16", "gke-v6e-32", "gke-v6e-16x4", "gke-v6e-32.spot"),
    *("gke-tpu7x-8", "gke-tpu7x-16", "gke-tpu7x-64", "gke-tpu7x-64.flex"),
)
OF_GPUS = ("gke-a3-mega-2", "gke-a3-mega-2.spot", "gke-a3-mega-32")
ON_VERTEX = ("vertex-a3-mega-2", "vertex-a3-mega-4")
VARIANTS = {Tier.ON_DEMAND: "", Tier.FLEX_START: "flex"}
CASES = cases(300, 10_000)


def tpu_settings(stack: str) -> TpuVmSettings:
    tpu = any_from_file(stack)
    assert isinstance(tpu, TpuVmSettings)
    return tpu


@pytest.mark.parametrize("stack", stack_names())
def test_a_stack_is_named_after_its_content(stack: str) -> None:
    """`[<cluster>-]<accelerator>[x<slices>][.<variant>]`; local and foundation are named alone."""
    content = any_from_file(stack)
    name, _, variant = stack.partition(".")
    lines = (STACKS / f"Pulumi.{stack}.yaml").read_text().splitlines()
    assert len(lines) <= 20, "a stack file is 10-20 lines"
    assert lines[0] == f"encryptionsalt: {SALT}"
    if content.target in (Target.LOCAL, Target.FOUNDATION):
        assert name == content.target
        return
    assert isinstance(content, TpuVmSettings | GkeSettings | KubernetesSettings | VertexSettings)
    size = content.accelerator + (f"x{content.slices}" if content.slices > 1 else "")
    if isinstance(content, KubernetesSettings):
        assert name.partition("-")[2] == size
        return
    begins = "gke-" if isinstance(content, GkeSettings) else "vertex-" if isinstance(content, VertexSettings) else ""
    assert name == begins + size
    assert variant == VARIANTS.get(content.tier, content.tier)


def test_promised_stacks_are_shipped() -> None:
    assert {*PROMISED, *ON_GKE, *OF_GPUS, *ON_VERTEX} <= set(stack_names())


@pytest.mark.parametrize("stack", PROMISED)
def test_shipped_stacks_plan_and_agree_with_themselves(stack: str) -> None:
    tpu = tpu_settings(stack)
    planned = decide(tpu)
    agree(tpu)
    assert problems(requested(tpu, planned.software)) == []
    assert parse(planned.spec.to_yaml()) == planned.spec
    assert planned.spec.output_directory.startswith(f"gs://{tpu.names.checkpoints_bucket}/")
    assert planned.facts
    assert planned.facts.cost.usd_per_hour and planned.facts.cost.usd_per_run, "no shipped stack is without a price"
    assert planned.facts.quota and planned.facts.quota.name
    assert "vocab_size" not in planned.spec.maxtext, "a model by name has its own"


def agree(tpu: TpuVmSettings) -> None:
    """Chips, hosts and slices are the same in report, run spec, request, startup script and mesh."""
    row, spec = tpu.row, run_plan.of_stack(tpu)
    script = startup_script(host_script(tpu, "0" * 16), "true")
    request = request_inputs(tpu, script)
    facts = facts_of(tpu)
    assert facts
    assert (facts.slices, facts.hosts, facts.chips) == (spec.slices, spec.hosts, row.chips * tpu.slices)
    assert spec.devices == row.devices * tpu.slices
    assert request.nodes == len(tpu.nodes) == spec.slices
    assert request.node_ids == tpu.nodes
    size = HEADER.format(stack=tpu.stack, slices=spec.slices, hosts=spec.hosts_per_slice, chips=row.chips_per_host)
    assert f"\n{size}\n" in script
    assert facts.chips == spec.slices * spec.hosts_per_slice * row.chips_per_host
    mesh = resolve_mesh(spec.maxtext, row.devices, spec.slices)
    assert str(mesh) == facts.mesh
    node_spec: dict[str, Any] = body(request, tpu.zones[0])["tpu"]["node_spec"][0]
    assert ("multislice_params" in node_spec) == (tpu.slices > 1) != ("node_id" in node_spec)


# --- random stacks ---

TPUS = [row.name for row in hardware.rows("queued_resource")]
ZONES = sorted({zone for name in TPUS for zone in hardware.find(name).zones})
WORDS = st.one_of(
    st.text(max_size=8), st.sampled_from(["", "6h", "spot", "v6e-8", "us-east5-b", "2026-12-01T00:00:00Z"])
)
JUNK = st.one_of(st.none(), st.booleans(), st.integers(-3, 10**6), st.floats(), WORDS, st.lists(WORDS, max_size=2))


@st.composite
def stacks(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """A stack's values, mostly sensible, and the keys that were made up at random."""
    row = hardware.find(draw(st.sampled_from(TPUS)))
    region = draw(st.sampled_from(sorted({zone.rpartition("-")[0] for zone in row.zones})))
    zones = [zone for zone in row.zones if zone.startswith(f"{region}-")]
    price = row.price(region)
    has_spot = price is None or price.spot_usd is not None
    values: dict[str, Any] = {
        "target": "tpu-vm",
        "project": draw(st.sampled_from(["my-project", "example.com:x", "a-project-of-thirty-characters"])),
        "owner": "me@example.com",
        "accelerator": row.name,
        "slices": draw(st.sampled_from([1, 1, 1, 2, 16, 512])),
        "zones": draw(st.lists(st.sampled_from(zones), min_size=1, max_size=3, unique=True)),
        "tier": draw(st.sampled_from(["on-demand", "guaranteed", *(["spot", "best-effort"] if has_spot else [])])),
        "steps": draw(st.integers(1, 10**6)),
        "data": "synthetic",
        "training": {"model_name": draw(st.sampled_from(["llama2-7b", "default"])), "per_device_batch_size": 1},
    }
    touched = set[str]()
    for _ in range(draw(st.integers(0, 2))):
        key = draw(st.sampled_from([*TpuVmSettings.model_fields, "zonse"]))
        if key in ("stack", "model_file"):
            continue
        touched.add(key)
        values[key] = draw(st.one_of(JUNK, st.sampled_from(ZONES), st.lists(st.sampled_from(ZONES), max_size=3)))
    return values, touched


@pytest.mark.sample(1)
@pytest.mark.timeout(1200)
@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stacks())
def test_random_stacks_plan_or_name_the_key(case: tuple[dict[str, Any], set[str]]) -> None:
    values, touched = case
    try:
        read = check("some-stack", values)
        if isinstance(read, TpuVmSettings):
            agree(read)
    except SettingsError as error:
        said = str(error)
        assert "\n" not in said
        assert "fault in" not in said
        keys = set(touched)
        if keys & {"zones", "region", "accelerator"}:  # where it is decides about tier, reservation, subnet and disks
            keys |= {"tier", "accelerator", "zones", "region", "v5", "v6e", "tpu7x", "parallelism"}
        if "slices" in keys:
            keys |= {"parallelism", "node"}
        if keys & {"network", "subnet"}:
            keys |= {"network", "subnet"}
        if "prefix" in keys:
            keys |= {"node"}
        if "stack" in keys or "training" in keys:
            keys |= {"training", "parallelism", "model"}
        assert any(key in said for key in keys), (said, touched)
        return
    if isinstance(read, TpuVmSettings):
        assert problems(request_inputs(read, "script")) == []
        spec = run_plan.of_stack(read)
        assert parse(spec.to_yaml()) == spec


# --- slipway stack new, slipway preview ---


@pytest.mark.parametrize("stack", PROMISED)
def test_shipped_stacks_are_what_stack_new_writes(stack: str) -> None:
    tpu = tpu_settings(stack)
    new = NewStack(tpu.accelerator, tpu.zones, tpu.slices, str(tpu.tier))
    assert new.name == stack
    assert text(new) == (STACKS / f"Pulumi.{stack}.yaml").read_text()


@pytest.mark.parametrize("stack", [*ON_GKE, *OF_GPUS])
def test_shipped_stacks_of_gke_are_what_stack_new_writes_for_it(stack: str) -> None:
    gke = any_from_file(stack)
    assert isinstance(gke, GkeSettings)
    flexible = gke.tier is Tier.FLEX_START
    keys = (("max_runtime", "24h"),) if flexible else ()
    new = NewStack(
        *(gke.accelerator, gke.zones, gke.slices, str(gke.tier), VARIANTS.get(gke.tier, "")),
        target=gke.target,
        keys=keys,
    )
    assert new.name == stack
    assert text(new) == (STACKS / f"Pulumi.{stack}.yaml").read_text()


def test_what_gke_alone_offers_is_a_stack_of_gke() -> None:
    assert NewStack("tpu7x-64", ("us-central1-c",)).name == "gke-tpu7x-64"


@pytest.mark.parametrize("name", TPUS)
def test_every_size_has_a_default_model(name: str) -> None:
    row = hardware.find(name)
    model = model_for(row)
    assert model in MODELS
    if row.chips >= 8:
        assert model.parameters >= 7e9
    zone = (row.zones_documented or row.zones)[0]
    assert isinstance(from_text(name, text(NewStack(name, (zone,)))), TpuVmSettings)


def test_stack_new_writes_one_that_previews_and_never_overwrites(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_command, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")  # pyright: ignore
    command = ["stack", "new", "v5p-512", "--zone", "us-east5-a", "--slices", "2", "--tier", "spot"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "stacks/Pulumi.v5p-512x2.spot.yaml is written; see what it would cost: slipway preview" in done.output
    tpu = from_text("v5p-512x2.spot", (tmp_path / "Pulumi.v5p-512x2.spot.yaml").read_text())
    assert isinstance(tpu, TpuVmSettings) and (tpu.slices, tpu.tier) == (2, Tier.SPOT)
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 2
    assert "is there already; remove it, or give another --variant" in again.output
    for wrong, message in (
        (["v5p-512", "--zone", "us-west4-a"], "zones has 'us-west4-a'"),
        (["v4-8", "--zone", "us-central2-b"], "is TPU v4, which is not supported"),
        (["v5p-512"], "a stack of target tpu-vm needs --zone; v5p-512 is in: us-central1-a, us-east5-a"),
        (["cpu-8", "--target", "local", "--zone", "us-east5-a"], "a stack of target local has no zones; leave --zone"),
        (["cpu-8", "--target", "local", "--set", "ownr=me"], "unknown key 'ownr'"),
        (
            ["v5p-512", "--target", "moon"],
            f"target 'moon' is none; write one of: {', '.join(Target)}",
        ),
    ):
        refused = CliRunner().invoke(app, ["stack", "new", *wrong])
        assert refused.exit_code == 2
        assert message in refused.output


def test_stack_new_writes_one_that_trains_in_the_emulated_cloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_command, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")  # pyright: ignore
    monkeypatch.setenv(TPU, "")  # so that what the command sets is taken back
    monkeypatch.delenv(TPU)
    done = CliRunner().invoke(app, ["stack", "new", "vcpu-2", "--zone", "us-east5-b", "--tier", "spot"])
    assert done.exit_code == 0, done.output
    assert done.output.endswith("Pulumi.vcpu-2.spot.yaml is written; start its cloud: slipway emulate tpu --boot\n")
    vcpu = from_text("vcpu-2.spot", (tmp_path / "Pulumi.vcpu-2.spot.yaml").read_text())
    assert isinstance(vcpu, TpuVmSettings) and vcpu.row.emulated and vcpu.fit == "unchecked"


def test_stack_new_writes_only_keys_that_the_target_has() -> None:
    new = NewStack("cpu-8", target="local", keys=(("steps", "7"), ("on_destroy", "delete")))
    keys = [line.split()[0] for line in text(new).splitlines() if line.startswith("  slipway:")]
    names = ("target", "accelerator", "data", "steps", "on_destroy", "training")
    assert keys == [f"slipway:{name}:" for name in names]
    read = from_text(new.name, text(new))
    assert isinstance(read, LocalSettings) and (read.steps, read.on_destroy) == (7, "delete")


@pytest.mark.parametrize(
    ("options", "name", "tier"),
    [
        ("", "v6e-8", Tier.ON_DEMAND),
        ("--variant try", "v6e-8.try", Tier.ON_DEMAND),
        ("--variant try --tier spot", "v6e-8.try", Tier.SPOT),
        ("--variant try --slices 2", "v6e-8x2.try", Tier.ON_DEMAND),
        ("--variant try --target tpu-vm", "tpu-vm-v6e-8.try", Tier.ON_DEMAND),
    ],
)
def test_a_variant_is_what_follows_the_dot_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str, name: str, tier: Tier
) -> None:
    monkeypatch.setattr(stack_command, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")  # pyright: ignore
    done = CliRunner().invoke(app, ["stack", "new", "v6e-8", "--zone", "us-east5-b", *options.split()])
    assert done.exit_code == 0, done.output
    (written,) = tmp_path.iterdir()
    assert written.name == f"Pulumi.{name}.yaml"
    tpu = from_text(name, written.read_text())
    assert isinstance(tpu, TpuVmSettings) and tpu.tier is tier


def test_the_table_of_all_stacks() -> None:
    shown = CliRunner().invoke(app, ["preview", "--all", "--json"])
    assert shown.exit_code == 0, shown.output
    rows = {row["stack"]: row for row in json.loads(shown.output)}
    assert set(rows) == set(stack_names())
    assert (rows["v5e-256"]["chips"], rows["v6e-8x32"]["slices"]) == ("256", "32")
    assert not any("error" in row["target"] for row in rows.values())
    table = CliRunner().invoke(app, ["preview", "--all"]).output.splitlines()
    assert re.match(r"stack +target +chips", table[0])
    assert not any("…" in line for line in table), "a cut figure is worse than none"
    assert CliRunner().invoke(app, ["preview"]).exit_code == 2


def test_the_table_for_a_pull_request_has_a_row_for_each_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.v6e-8.yaml").write_text((STACKS / "Pulumi.v6e-8.yaml").read_text())
    (tmp_path / "Pulumi.v6e-32.yaml").write_text("config: {slipway:target: 'mo|on'}")
    monkeypatch.setattr(stack_settings, "STACKS", tmp_path)
    monkeypatch.setattr(paths, "STACKS", tmp_path)
    shown = CliRunner().invoke(app, ["preview", "--all", "--markdown"])
    cells = [re.split(r"(?<!\\)\|", row)[1:-1] for row in shown.output.splitlines()]
    titles, line, wrong, row = [[cell.strip() for cell in row] for row in cells]
    assert (titles[:3], set(line)) == (["stack", "target", "chips"], {"---"})
    assert (row[:3], len(row), len(wrong)) == (["v6e-8", "tpu-vm", "8"], len(titles), len(titles))
    assert wrong[1].startswith(r"error: target is 'mo\|on' in stacks/Pulumi.v6e-32.yaml")


def test_json_and_markdown_at_once_are_refused_before_anything_is_previewed() -> None:
    done = CliRunner().invoke(app, ["preview", "v6e-8", "--json", "--markdown"])
    assert (done.exit_code, done.output) == (2, "error: --json and --markdown exclude each other\n")


def test_a_stack_without_chips_that_changes_nothing() -> None:
    shown = preview.Preview("foundation.x", None, ("what it is",), (), None, (), new=False, facts=None)
    assert preview.as_text(shown) == "what it is\n\nresources, against what is deployed:\n  no changes"
    assert preview.as_markdown(shown).splitlines() == [
        "### `foundation.x`", "", "**Resources against what is deployed**", "", "no changes",
    ]  # fmt: skip


def test_a_stack_that_cannot_be_read_says_so_below_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.v6e-32.yaml").write_text("config: {slipway:target: moon}")
    monkeypatch.setattr(stack_settings, "STACKS", tmp_path)
    monkeypatch.setattr(paths, "STACKS", tmp_path)
    shown = CliRunner().invoke(app, ["preview", "--all"])
    assert shown.output.splitlines()[-1].startswith("v6e-32: error: target is 'moon' in stacks/Pulumi.v6e-32.yaml")


PLAN = {
    "steps": [
        {"op": "same", "urn": "urn:pulumi:s::slipway::pulumi:pulumi:Stack::slipway-s"},
        {"op": "replace", "urn": "urn:pulumi:s::slipway::slipway:tpu:Slice$slipway:tpu:QueuedResource::request",
         "detailedDiff": {"tier": {"kind": "update-replace"}}},
        {"op": "create-replacement", "urn": "urn:pulumi:s::slipway::slipway:tpu:QueuedResource::request"},
        {"op": "update", "urn": "urn:pulumi:s::slipway::slipway:artifacts:Bundle::bundle",
         "detailedDiff": {"bundle": {}}},
    ]
}  # fmt: skip


def test_a_comparison_with_a_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    now = tpu_settings("v6e-32")
    then = check("v6e-32", now.model_dump(mode="json", exclude={"stack"}, exclude_none=True) | {"tier": "spot"})
    monkeypatch.setattr(compare, "at", lambda revision, stack: then)  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(planned_changes, "run", lambda stack: planned_changes.changes(json.dumps(PLAN)))  # pyright: ignore
    compared = preview.of_stack("v6e-32", "main")
    assert compared.settings == ("tier: spot -> on-demand",)
    assert [(change.action, change.resource, change.because) for change in compared.changes] == [
        ("replace", "slipway:tpu:QueuedResource request", ("tier",)),
        ("update", "slipway:artifacts:Bundle bundle", ("bundle",)),
    ]
    shown = preview.as_text(compared)
    assert "  tier: spot -> on-demand" in shown
    assert "  $ per hour: $40.83 -> $86.40" in shown
    pull_request = preview.as_markdown(compared)
    assert "| $ per hour | **$86.40** | $40.83 |" in pull_request
    assert "| replace | `slipway:tpu:QueuedResource request` | tier |" in pull_request
    document = json.loads(preview.as_json_text(compared))
    assert document["stack_report"]["usd_per_hour"] == 86.4
    assert document["settings"] == ["tier: spot -> on-demand"]


def test_a_revision_that_is_not_there() -> None:
    with pytest.raises(SettingsError, match="'no-such-branch' is no revision of this clone"):
        compare.at("no-such-branch", "v6e-32")
    assert compare.at("HEAD", "v5p-99999.never") is None


def test_run_plan_keeps_the_vocabulary_of_prepared_text() -> None:
    local = any_from_file("local")
    assert isinstance(local, stack_settings.Settings)
    assert run_plan.run_spec(local, "/runs", None).maxtext["vocab_size"] == local.data_options.vocab_size
    assert Api.QUEUED_RESOURCE in hardware.find("v6e-32").apis
