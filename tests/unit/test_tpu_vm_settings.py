"""Stack files of target tpu-vm: what is accepted, and one sentence with the fix for what is not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra import paths
from infra.emulated import TPU
from infra.paths import ROOT, STACKS
from infra.preview.stack_plan import decide
from infra.rules import google_checks
from infra.stack_file import settings as stack_settings
from infra.stack_file.cloud_training import how_to_make_foundation
from infra.stack_file.settings import SettingsError, any_from_file, check, from_engine, from_file, from_text
from infra.targets.foundation.settings import FoundationSettings
from infra.targets.tpu_vm.declare import slice_args
from infra.targets.tpu_vm.plan import requested
from infra.targets.tpu_vm.provider.tpu_inputs import problems
from infra.targets.tpu_vm.settings import TpuVmSettings
from infra.tiers import Tier

SHIPPED = (STACKS / "Pulumi.v6e-32.yaml").read_text()
SCHEMA: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]


def values(**changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(SHIPPED)["config"]
    base = {key.removeprefix("slipway:"): value for key, value in config.items()} | changes
    return {key: value for key, value in base.items() if value is not None}


def made(stack: str = "v6e-32", **changes: Any) -> TpuVmSettings:
    found = check(stack, values(**changes))
    assert isinstance(found, TpuVmSettings)
    return found


def test_the_shipped_stack() -> None:
    settings = made()
    assert settings.tier is Tier.ON_DEMAND
    assert settings.zones == ("us-east5-b", "us-east5-a")
    assert settings.request == "slipway-v6e-32"
    assert settings.nodes == ("slipway-v6e-32",)
    assert settings.all_labels == {"slipway-owner": "me-example-com", "slipway-stack": "v6e-32"}


def test_words_people_use() -> None:
    assert made(tier="best-effort").tier is Tier.SPOT
    assert made(valid_until="6h").valid_until == "6h"
    assert made(valid_until="2026-12-01T06:00:00+01:00").valid_until == "2026-12-01T05:00:00Z"
    assert made(wait_deadline="7d", max_runtime="90m").max_runtime == 5400
    assert made(zones=None, region="us-east5").zones[:2] == ("us-east5-a", "us-east5-b"), "documented zones first"
    assert made(project="example.com:thing").names.account_email.endswith("@thing.example.com.iam.gserviceaccount.com")
    assert made("v6e-32.spot", tier="spot").request == "slipway-v6e-32--spot"
    multislice = made("v6e-8x3", accelerator="v6e-8", slices=3)
    assert multislice.nodes == ("slipway-v6e-8x3-0", "slipway-v6e-8x3-1", "slipway-v6e-8x3-2")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tier": "flex-start"}, "write how long it is wanted, like `slipway:max_runtime: 24h`"),
        ({"tier": "flex-start", "max_runtime": "8d"}, "which gives a slice for at most 7 days"),
        ({"tier": "cheap"}, "tier is 'cheap' in stacks/Pulumi.v6e-32.yaml: input should be 'on-demand', 'spot'"),
        ({"tier": "reserved"}, "tier is 'reserved' in stacks/Pulumi.v6e-32.yaml, but which? write `slipway:reserv"),
        ({"reservation": "r"}, "but tier 'on-demand' takes none; write `tier: reserved`"),
        ({"tier": "reserved", "reservation": "r"}, "is of one zone, but zones are us-east5-b, us-east5-a"),
        (
            {"tier": "reserved", "reservation": "projects/p/locations/us-east1-d/reservations/r"},
            "reservation is in zone 'us-east1-d', but zones are us-east5-b, us-east5-a in stacks/Pulumi.v6e-32.yaml",
        ),
        ({"tier": "reserved", "reservation": "a/b"}, "projects/<project>/locations/<zone>/reservations/<name>"),
        ({"tier": "spot", "zones": ["southamerica-west1-a"]}, "no spot v6e-32 is listed in southamerica-west1; choose"),
        ({"min_duration": "4h"}, "only tier 'guaranteed' has one; tier is 'on-demand'"),
        ({"zones": ["us-east5-b", "us-east1-d"]}, "zones lie in 2 regions (us-east5, us-east1)"),
        ({"zones": ["us-east5-b", "us-east5-b"]}, "names a zone twice"),
        ({"zones": ["us-west4-a"]}, "in stacks/Pulumi.v6e-32.yaml, which has no v6e-32; it is in: europe-"),
        ({"zones": ["mars"]}, "zones has 'mars' in stacks/Pulumi.v6e-32.yaml, which is no zone"),
        ({"zones": []}, "zones is empty in stacks/Pulumi.v6e-32.yaml; v6e-32 is in: europe-west4-a"),
        ({"zones": "us-east5-b"}, "zones is 'us-east5-b' in stacks/Pulumi.v6e-32.yaml: write a list"),
        ({"region": "us-east1"}, "region is 'us-east1' but zones are in 'us-east5'"),
        ({"zones": None, "region": "us-west4"}, "region 'us-west4' has no zone with v6e-32"),
        ({"zones": None, "region": "us-esat5"}, "region 'us-esat5' has no zone in infra/hardware.yaml; nearest: us-ea"),
        ({"accelerator": "cpu-8"}, "accelerator 'cpu-8' is this machine's; write `target: local`"),
        ({"accelerator": "tpu7x-64"}, "accelerator 'tpu7x-64' is not offered as a TPU VM, only by: gke"),
        ({"accelerator": "v6e-33", "zones": None, "region": "us-east5"}, "is not in infra/hardware.yaml; nearest: v6e"),
        ({"accelerator": "v6e-33"}, "accelerator 'v6e-33' is not in infra/hardware.yaml; nearest: v6e-32"),
        ({"project": "X"}, "project 'X' cannot be a project id: it has upper-case letters"),
        ({"project": "p"}, "project 'p' cannot be a project id: it has 1 characters"),
        ({"project": None}, "key 'project' is missing in stacks/Pulumi.v6e-32.yaml; add `slipway:project: ...`"),
        ({"owner": None}, "key 'owner' is missing in stacks/Pulumi.v6e-32.yaml"),
        ({"prefix": "a-prefix-beyond-all-limits"}, "prefix 'a-prefix-beyond-all-limits' has 26 characters"),
        ({"labels": {"Team": "x"}}, "label 'Team: x' is not one of Google's"),
        ({"labels": {"slipway-stack": "x"}}, "label 'slipway-stack' is set by Slipway"),
        ({"tags": ["No"]}, "'No' is not a network tag"),
        ({"network": "projects/p/global/networks/n"}, "network and subnet go together"),
        ({"network": "my network", "subnet": "s"}, "spaces or characters beyond ASCII in it; give the name or path"),
        ({"training": {"ici_fsdp_parallelism": 0}}, "ici_fsdp_parallelism is 0; give a whole number from 1, or -1"),
        (
            {"network": "n", "subnet": "projects/p/regions/us-east1/subnetworks/s"},
            "subnet is in region 'us-east1', but zones are in 'us-east5'",
        ),
        ({"data_disks": [{"source_disk": "d", "mode": "read-write"}]}, "but 8 hosts would share it"),
        ({"data_disks": [{"source_disk": "projects/p/zones/us-east1-d/disks/d"}]}, "of zone 'us-east1-d', but zones"),
        ({"data_on_hosts": "disk"}, "data_on_hosts is 'disk' in stacks/Pulumi.v6e-32.yaml, but data is "),
        ({"data_on_hosts": "disk", "data": "stdlib"}, "but data_disks has none; name the disk that has the"),
        ({"data_on_hosts": "mount"}, "data is 'synthetic', which lies in no bucket; leave data_on_hosts out"),
        ({"data_on_hosts": "nfs"}, "data_on_hosts is 'nfs' in stacks/Pulumi.v6e-32.yaml: input should be"),
        ({"boot_disk_gb": 500}, "boot_disk_gb cannot be asked for: the v2 TPU API has no boot disk"),
        ({"service_account": "1-compute@developer.gserviceaccount.com"}, "the project's default account"),
        ({"valid_until": "soon"}, "valid_until is 'soon' in stacks/Pulumi.v6e-32.yaml: no length of time; write"),
        ({"valid_until": "2026-12-01T06:00:00"}, "a time without a zone"),
        ({"valid_after": "6h", "valid_until": "4h"}, "the request would expire before it may be served"),
        ({"max_runtime": "long"}, "max_runtime is 'long' in stacks/Pulumi.v6e-32.yaml: no length of time; write"),
        ({"max_usd_per_hour": -1}, "max_usd_per_hour is -1 in stacks/Pulumi.v6e-32.yaml: input should be g"),
        (
            {"data": "gs://bucket/prepared"},
            "data is 'gs://bucket/prepared' in stacks/Pulumi.v6e-32.yaml; prepared text in a bucket stands alone, and "
            "the last part of its URL is its content: gs://bucket/path/<16 hex digits>, as `slipway data push DIR",
        ),
        ({"data": f"gs://bucket/{16 * '0'}; corpus/*.txt"}, "prepared text in a bucket stands alone, and the"),
        (
            {"data": f"gs://bucket/{16 * '0'}", "data_options": {"vocab_size": 512, "tokenizer": "my.model"}},
            "that text is prepared already, so data_options.tokenizer changes nothing of it: leave it out, or prepare",
        ),
        (
            {"data": f"gs://slipway-data-us-east1-my-project/prepared/{16 * '0'}"},
            "data: bucket 'slipway-data-us-east1-my-project' lies in us-east1, but the hosts are in us-east5",
        ),
        (
            {"artifacts": "s3://bucket/x"},
            "artifacts is 's3://bucket/x' in stacks/Pulumi.v6e-32.yaml, which hosts in the cloud do not reach: give",
        ),
        ({"artifacts": "az://bucket"}, "no store is reached by az://; there are three kinds, a directory (/...)"),
        (
            {"data": f"s3://bucket/prepared/{16 * '0'}"},
            "hosts of this stack have credentials for gs:// alone; push the text there",
        ),
        ({"runs": "gs://Bucket"}, "runs is 'gs://Bucket' in stacks/Pulumi.v6e-32.yaml: no place for files; give an a"),
        ({"artifacts": "/wheels"}, "artifacts is '/wheels' in stacks/Pulumi.v6e-32.yaml, which hosts in the cloud do"),
        ({"on_destroy": "keep"}, "unknown key 'on_destroy' in stacks/Pulumi.v6e-32.yaml"),
        ({"zonse": []}, "unknown key 'zonse' in stacks/Pulumi.v6e-32.yaml; nearest: zones"),
        ({"target": None}, "in stacks/Pulumi.v6e-32.yaml; write `slipway:target:` and one of: local"),
        ({"allow": ["anything"]}, "allow"),
        ({"host_secrets": ["A secret value"]}, "host_secrets.0 is 'A secret value'"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_with_the_fix(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        made(**changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["", "https://tpu.googleapis.com"])
def test_an_emulated_accelerator_is_refused_at_google(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    emulated_stack = {"accelerator": "vcpu-2", "zones": ["us-east5-b"], "training": {"max_target_length": 64}}
    monkeypatch.setenv(TPU, "http://127.0.0.1:8470")
    assert made("vcpu-2", **emulated_stack, runs="/a/directory").places.runs == "/a/directory/vcpu-2"
    monkeypatch.setenv(TPU, endpoint)
    with pytest.raises(SettingsError) as caught:
        made("vcpu-2", **emulated_stack)
    assert str(caught.value) == (
        "accelerator is 'vcpu-2' in stacks/Pulumi.vcpu-2.yaml, which Google does not have; run `slipway emulate tpu "
        "--boot` and export SLIPWAY_TPU_ENDPOINT as it says, or name one of `slipway hardware tpu`"
    )
    with pytest.raises(SettingsError, match=r"runs is '/a/directory' in .*, which hosts in the cloud do not reach"):
        made(runs="/a/directory")


def test_stacks_that_differ_in_a_dot_have_requests_of_different_names() -> None:
    assert made("v6e-32.a.b").request == "slipway-v6e-32--a--b" != made("v6e-32.a-b").request


def test_names_are_computed_with_every_suffix() -> None:
    longest = "v6e-8x512." + "n" * 41
    assert len(made(longest, accelerator="v6e-8", slices=99).nodes[-1]) == 63
    with pytest.raises(
        SettingsError, match="would have 64 characters, the TPU API allows 63; shorten the stack's name"
    ):
        made(longest, accelerator="v6e-8", slices=512)


def test_two_stacks_with_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_settings, "STACKS", tmp_path)
    (tmp_path / "Pulumi.v6e-8-1.yaml").write_text("config: {}")
    with pytest.raises(SettingsError, match="would make nodes named as those of stack 'v6e-8-1'; rename one"):
        made("v6e-8", accelerator="v6e-8", slices=2)
    with pytest.raises(SettingsError, match="stack 'v6e--32' has '--'"):
        made("v6e--32")


def foundation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **lines: str) -> None:
    """A clone's stacks: a shipped foundation with other lines, and a file of somebody else's mistake."""
    for module in (stack_settings, paths):
        monkeypatch.setattr(module, "STACKS", tmp_path)
    keys = {"target": "foundation", "project": "theirs-1234", "region": "us-east5", "owner": "me"} | lines
    text = "".join(f"  slipway:{key}: {value}\n" for key, value in keys.items())
    (tmp_path / "Pulumi.foundation.us-east5.yaml").write_text(f"config:\n{text}")
    (tmp_path / "Pulumi.a-typo.yaml").write_text("config: {slipway:target: moon}")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ({}, "run: pulumi up --stack foundation.us-east5"),
        (
            {"project": "another-1234"},
            "write project theirs-1234 and prefix slipway into stacks/Pulumi.foundation.us-east5.yaml, and run: pulumi "
            "up --stack foundation.us-east5",
        ),
        (
            {"prefix": "other"},
            "write project theirs-1234 and prefix slipway into stacks/Pulumi.foundation.us-east5.yaml, and run: pulumi "
            "up --stack foundation.us-east5",
        ),
        (
            {"region": "us-central1"},
            "copy a stacks/Pulumi.foundation.*.yaml to stacks/Pulumi.foundation.us-east5.yaml, write region us-east5 "
            "and project theirs-1234 into it, and run: pulumi up --stack foundation.us-east5",
        ),
    ],
)
def test_a_stack_whose_foundation_is_not_there_says_how_to_make_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: dict[str, str], said: str
) -> None:
    foundation(tmp_path, monkeypatch, **lines)
    assert how_to_make_foundation(made(project="theirs-1234")) == said


def test_a_stack_file_that_cannot_be_used_stops_who_needs_every_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`slipway gc` asks every stack what it uses: one left out would lose it."""
    foundation(tmp_path, monkeypatch)
    with pytest.raises(
        SettingsError, match=r"target is 'moon' in stacks/Pulumi\.a-typo\.yaml; write `slipway:target:`"
    ):
        stack_settings.every(FoundationSettings)
    (found,) = stack_settings.every(FoundationSettings, skip_unusable=True)
    assert found.stack == "foundation.us-east5"


def test_a_key_that_is_there_twice() -> None:
    twice = SHIPPED + "    model_name: llama2-7b\n"
    with pytest.raises(SettingsError, match="has key 'model_name' again; remove one"):
        from_text("v6e-32", twice)


def test_a_stack_file_in_another_encoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Pulumi.v6e-32.yaml").write_bytes(SHIPPED.encode("utf-16"))
    monkeypatch.setattr(stack_settings, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")  # pyright: ignore
    with pytest.raises(SettingsError, match="is not UTF-8 text: invalid start byte at byte 0; save it as UTF-8"):
        from_file("v6e-32")


def test_a_stack_with_two_files_or_one_of_another_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_settings, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")  # pyright: ignore
    (tmp_path / "Pulumi.v6e-32.spot.yml").write_text(SHIPPED)
    with pytest.raises(SettingsError, match=r"is in stacks/Pulumi.v6e-32.spot.yml; rename it to Pulumi.v6e-32.spot.y"):
        from_file("v6e-32.spot")
    (tmp_path / "Pulumi.v6e-32.spot.yaml").write_text(SHIPPED)
    with pytest.raises(SettingsError, match=r"has two files, .*; remove the second, which is not read"):
        from_file("v6e-32.spot")


def test_domain_scoped_project_works_in_names_urls_and_labels() -> None:
    settings = made(project="example.com:thing", owner="example.com:me", host_secrets=["wandb"])
    request = requested(settings, decide(settings).software)
    assert (
        request.path("us-east5-b") == "projects/example.com:thing/locations/us-east5-b/queuedResources/slipway-v6e-32"
    )
    assert request.networks[0]["subnetwork"] == (
        "projects/example.com:thing/regions/us-east5/subnetworks/slipway-us-east5"
    )
    assert request.service_account == "slipway-us-east5@thing.example.com.iam.gserviceaccount.com"
    assert request.labels == {"slipway-owner": "example-com-me", "slipway-stack": "v6e-32"}
    assert problems(request) == []
    (bucket,) = re.findall(r"gs://(slipway-artifacts-[a-z0-9-]+)", str(request.metadata["startup-script"]))[:1]
    assert google_checks.bucket_name_problem(bucket) is None
    assert settings.places.artifacts == f"gs://{bucket}"
    assert (
        "projects/example.com:thing/secrets/slipway-us-east5-wandb/versions/latest"
        in (request.metadata["startup-script"])
    )


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"data": "gs://slipway-data-us-central1-my-project/text"}, "data"),
        ({"training": {"load_parameters_path": "gs://slipway-checkpoints-us-central1-my-project/v5e-8/0/items"}},
         "training.load_parameters_path"),
    ],
)  # fmt: skip
def test_data_or_checkpoints_of_another_region_are_refused(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        made(**changes)
    said = str(caught.value)
    assert said.startswith(f"{key}: bucket 'slipway-")
    assert "lies in us-central1, but the hosts are in us-east5" in said
    here = {"load_parameters_path": "gs://slipway-checkpoints-us-east5-my-project/v6e-8/0/items"}
    assert made(training=here).buckets_named == {
        "training.load_parameters_path": "slipway-checkpoints-us-east5-my-project"
    }


def test_where_artifacts_are_written_hosts_read_them_and_runs_go_are_keys() -> None:
    settings = made(artifacts="gs://ours/wheels", artifacts_on_hosts="/mnt/wheels", runs="gs://ours/runs")
    plan = decide(settings)
    assert plan.spec.output_directory == "gs://ours/runs/v6e-32"
    request = requested(settings, plan.software)
    assert "export SLIPWAY_ARTIFACTS=/mnt/wheels\n" in request.metadata["startup-script"]
    assert request.wanted_in == "", "what is said in the one may be late in the other"
    same = made(artifacts="gs://ours/wheels")
    assert requested(same, decide(same).software).wanted_in == "gs://ours/wheels"
    args = slice_args(plan)
    assert {args.prepared.software.wheelhouse.store, args.prepared.software.bundle.store} == {"gs://ours/wheels"}
    assert args.prepared.run.directory == f"gs://ours/runs/v6e-32/{plan.spec.run_name}"
    assert settings.buckets_named == {"artifacts": "ours", "runs": "ours"}
    assert made(artifacts="gs://ours").places.artifacts_on_hosts == "gs://ours"


def test_a_foundation_trains_nothing() -> None:
    with pytest.raises(SettingsError, match=r"stack 'foundation.us-east5' trains nothing"):
        from_file("foundation.us-east5")


@pytest.mark.parametrize("stack", stack_settings.stack_names())
def test_engine_and_file_read_the_same_settings(stack: str) -> None:
    """The engine hands over every default of Pulumi.yaml's schema, for the keys of every target."""
    config: dict[str, Any] = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text())["config"]
    every = {f"slipway:{key}": declared["default"] for key, declared in SCHEMA.items() if "default" in declared}
    engine = {key: value if isinstance(value, str) else json.dumps(value) for key, value in (every | config).items()}
    assert from_engine(stack, engine) == any_from_file(stack)
