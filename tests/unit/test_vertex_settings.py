"""Stack files of target vertex: the custom job that follows from them, and one sentence for what cannot be."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.paths import STACKS
from infra.preview.new_stack import NewStack, text
from infra.preview.stack_plan import decide
from infra.stack_file.settings import SettingsError, check, from_text
from infra.targets.vertex import plan
from infra.targets.vertex.provider.vertex_inputs import VertexJobInputs, body, fingerprint, problems
from infra.targets.vertex.settings import VertexSettings
from tests.golden_files import check_golden
from training.gpu_environment import variables
from training.hosts import who_am_i

TWO, FOUR = "vertex-a3-mega-2", "vertex-a3-mega-4"
RESERVATION = "projects/my-project/zones/us-central1-a/reservations/ours"
RESERVED: dict[str, Any] = {"tier": "reserved", "reservation": RESERVATION}
FLEX: dict[str, Any] = {"tier": "flex-start", "max_runtime": "24h"}
TENSORBOARD = "projects/my-project/locations/us-central1/tensorboards/7"


def made(stack: str = TWO, name: str = "", **changes: Any) -> VertexSettings:
    """A shipped stack, as it would be with these changes, under another name if one is given."""
    config: dict[str, Any] = yaml.safe_load((STACKS / f"Pulumi.{stack}.yaml").read_text())["config"]
    values = {key.removeprefix("slipway:"): value for key, value in config.items()} | changes
    found = check(name or stack, {key: value for key, value in values.items() if value is not None})
    assert isinstance(found, VertexSettings)
    return found


def asked(stack: str = TWO, **changes: Any) -> VertexJobInputs:
    return plan.job_inputs(made(stack, **changes), "0" * 16, "<bootstrap.sh>")


def spec(stack: str = TWO, **changes: Any) -> dict[str, Any]:
    return body(asked(stack, **changes))["jobSpec"]


# --- the job ---


def test_the_job_of_a_shipped_stack() -> None:
    check_golden("vertex-a3-mega-2.json", json.dumps(body(asked()), indent=2) + "\n")


@pytest.mark.parametrize(("stack", "hosts"), [(TWO, 2), (FOUR, 4)])
def test_replicas_ranks_and_mesh_follow_from_the_accelerator(stack: str, hosts: int) -> None:
    planned = decide(made(stack))
    master, workers = spec(stack)["workerPoolSpecs"]
    assert (master["replicaCount"], workers["replicaCount"]) == ("1", str(hosts - 1))
    assert master["machineSpec"] == workers["machineSpec"]
    assert master["machineSpec"]["acceleratorCount"] * hosts == planned.spec.devices == 8 * hosts
    names = {"workerpool0": ["a:2222"], "workerpool1": [f"b{index}:2222" for index in range(hosts - 1)]}
    told = {"CLUSTER_SPEC": json.dumps({"cluster": names}), "MASTER_ADDR": "a", "MASTER_PORT": "2222"}
    ours = {each["name"]: each["value"] for each in master["containerSpec"]["env"]}
    ranks = [who_am_i(ours | told | {"RANK": str(rank)}, lambda _: None) for rank in range(hosts)]
    assert [(host.index, host.count, host.coordinator) for host in ranks] == [
        (rank, planned.spec.hosts, "a:2222") for rank in range(hosts)
    ]


def test_the_first_stack_is_the_one_that_was_promised() -> None:
    trained = decide(made()).spec
    assert str(trained.maxtext["model_name"]) == "llama2-7b"
    assert (trained.steps, trained.tokens_per_step) == (400, 16 * 4 * 4096)
    assert trained.maxtext["checkpoint_period"] == 200
    facts = decide(made()).facts
    assert facts and facts.mesh == "data 2 x fsdp 8 (ICI)"
    assert problems(plan.requested(made(), decide(made()).software)) == []


def test_containers_are_told_what_pods_are_told() -> None:
    told = {each["name"]: each["value"] for each in spec()["workerPoolSpecs"][1]["containerSpec"]["env"]}
    assert {each.name: each.value for each in variables("tcpxo", "v1.0.15")}.items() <= told.items()
    assert told["SLIPWAY_NETWORK"] == "tcpxo"
    plain = spec(gpu_network="none", allow_sockets=True)["workerPoolSpecs"][0]["containerSpec"]["env"]
    assert not {each["name"] for each in plain} & {"SLIPWAY_NETWORK", "SLIPWAY_SOCKETS", "NCCL_FASTRAK_USE_SNAP"}


def test_the_script_reaches_bash_as_it_is(tmp_path: Path) -> None:
    """A pod's arguments lose `$$`, and `$(NAME)` becomes a variable's value."""
    script = "printf '%s\\n' \"$$ $(printf '%s' \"$NAME\") $1\" 'it''s'\n"
    (told,) = body(replace(asked(), script=script))["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"]
    assert "$" not in told
    done = subprocess.run(
        ["bash", "-c", told], env={"NAME": "n", "PATH": os.environ["PATH"]}, cwd=tmp_path, text=True, check=True,
        stdout=subprocess.PIPE, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    process, *rest = done.stdout.split()
    assert process.isdecimal() and rest == ["n", "its"]
    assert not list(tmp_path.iterdir())


def test_one_machine_is_one_pool() -> None:
    alone = made(accelerator="a3-mega-1", name="vertex-a3-mega-1", training={"model_name": "llama2-7b"})
    (pool,) = body(plan.job_inputs(alone, "0" * 16, "true"))["jobSpec"]["workerPoolSpecs"]
    assert pool["replicaCount"] == "1"


def test_terms_are_the_schedulers() -> None:
    strategies = {"on-demand": {}, "spot": {"tier": "spot"}, "reserved": RESERVED, "flex-start": FLEX}
    said = {tier: spec(**terms)["scheduling"] for tier, terms in strategies.items()}
    assert {tier: each["strategy"] for tier, each in said.items()} == {
        "on-demand": "STANDARD",
        "spot": "SPOT",
        "reserved": "STANDARD",
        "flex-start": "FLEX_START",
    }
    assert said["flex-start"]["timeout"] == "86400s"
    assert "maxWaitDuration" not in said["flex-start"] and "timeout" not in said["spot"]
    assert spec(timeout="2d")["scheduling"]["timeout"] == "172800s"
    assert spec(**FLEX, max_wait_duration="0s")["scheduling"]["maxWaitDuration"] == "0s"
    affinity = spec(**RESERVED)["workerPoolSpecs"][0]["machineSpec"]["reservationAffinity"]
    assert (affinity["reservationAffinityType"], affinity["values"]) == ("SPECIFIC_RESERVATION", [RESERVATION])


def test_a_tensorboard_has_a_place_for_logs() -> None:
    told = spec(tensorboard=TENSORBOARD)
    assert told["tensorboard"] == TENSORBOARD
    assert told["baseOutputDirectory"]["outputUriPrefix"].startswith("gs://slipway-checkpoints-us-central1-my-project/")
    assert told["serviceAccount"]


def test_what_is_left_empty_is_not_sent() -> None:
    assert not {"network", "tensorboard", "baseOutputDirectory", "enableWebAccess"} & spec().keys()
    network = "projects/12345/global/networks/ours"
    more = spec(peered_network=network, web_access=True)
    assert (more["network"], more["enableWebAccess"]) == (network, True)


def test_where_it_is_asked_for_is_no_term() -> None:
    job = asked()
    assert fingerprint(replace(job, regions=["us-east4", "us-central1"])) == fingerprint(job)
    assert fingerprint(replace(job, identity="me", wait=False)) == fingerprint(job)
    assert fingerprint(replace(job, environment=job.environment | {"SLIPWAY_BUNDLE": "1" * 16})) != fingerprint(job)


# --- the preview ---


def test_a_preview_says_regions_price_quota_and_what_is_made() -> None:
    said = "\n".join(decide(made(regions=["us-central1", "us-west4"], max_usd_per_hour=None)).notices)
    lines = (
        "regions us-central1, us-west4 (tried in this order)",
        "$207.72 = 16 chips x $12.98",
        "us-west4 is the dearest of its regions",
        "custom_model_training_nvidia_h100_mega_gpus: 16 chips in us-central1 or us-west4",
        "1 a3-megagpu-8g as master and 1 as worker, as slipway-us-central1@my-project",
        "a job in us-west4 reads and writes them across regions",
        "image python:3.12 is named by a tag",
        "between hosts: GPUDirect-TCPXO",
    )
    assert [line for line in lines if line not in said] == []


def test_an_image_by_digest_needs_no_word() -> None:
    digest = f"python@sha256:{'0' * 64}"
    assert "named by a tag" not in "\n".join(plan.notices(made(image=digest), None))
    assert asked(image=digest).image == f"us-central1-docker.pkg.dev/my-project/slipway-mirror/library/{digest}"


def test_an_account_of_ones_own_is_told_its_roles() -> None:
    (said,) = [
        line for line in plan.notices(made(service_account="me@p.iam.gserviceaccount.com"), None) if "me@p" in line
    ][1:]
    assert "roles/storage.objectViewer on gs://slipway-artifacts-us-central1-my-project" in said
    assert "roles/storage.legacyBucketReader, roles/storage.objectUser on gs://slipway-checkpoints" in said


def test_a_new_stack_names_the_region_of_its_zone() -> None:
    new = NewStack("a3-mega-2", ("us-east4-b",), target="vertex")
    assert new.name == TWO
    assert "  slipway:regions: [us-east4]\n" in text(new) and "zones" not in text(new)
    assert from_text(TWO, text(new)).place == "us-east4"


# --- what cannot be ---


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"regions": ["us-south1"]},
            "regions has 'us-south1' in stacks/Pulumi.vertex-a3-mega-2.yaml, which has no a3-",
        ),
        ({"regions": ["us-central1", "us-south1"]}, "regions has 'us-south1'"),
        ({"regions": ["mars1"]}, "region 'mars1'"),
        ({"regions": ["us-central1", "us-central1"]}, "names a region twice"),
        ({"regions": None}, "regions is empty in stacks/Pulumi.vertex-a3-mega-2.yaml; a3-mega-2 is in: asia-east1"),
        ({"region": "us-east4"}, "region and regions are both given"),
        ({"zones": ["us-central1-a"]}, "zones cannot be asked for"),
        ({"accelerator": "v5e-8"}, "is TPUs in"),
        ({"accelerator": "h100-2"}, "'h100-2' is not offered as machines of a custom job of Vertex AI"),
        ({"tier": "guaranteed"}, "which Vertex AI does not have; write `tier: reserved`"),
        ({"tier": "reserved"}, "tier is 'reserved' in stacks/Pulumi.vertex-a3-mega-2.yaml, but which?"),
        ({"reservation": RESERVATION}, "tier 'on-demand' takes none"),
        (RESERVED | {"reservation": "ours"}, "Vertex AI takes its full name"),
        (
            RESERVED | {"reservation": RESERVATION.replace("us-central1-a", "us-east4-a")},
            "reservation is in zone 'us-east4-a', but the job is asked for in us-central1",
        ),
        (
            RESERVED | {"reservation": RESERVATION.replace("us-central1-a", "us-central1-f")},
            "reservation is in zone 'us-central1-f' in stacks/Pulumi.vertex-a3-mega-2.yaml, which has no a3-mega-2",
        ),
        ({"max_wait_duration": "6h"}, "only tier 'flex-start' looks for machines that long"),
        ({"tier": "flex-start"}, "write how long it is wanted, like `slipway:max_runtime: 24h`"),
        (FLEX | {"timeout": "2d"}, "timeout is 2d and max_runtime 1d in"),
        ({"tensorboard": TENSORBOARD.replace("central1", "east4")}, "tensorboard is in us-east4, but the job is asked"),
        ({"tensorboard": "7"}, "no TensorBoard of Vertex AI"),
        ({"network": "n", "subnet": "s"}, "a custom job runs in a network of Google's own"),
        ({"peered_network": "projects/p/global/networks/n"}, "<project's number>"),
        ({"training": {"ici_fsdp_parallelism": 8}}, "is 8, but there are 16 devices of a slice"),
        ({"training": {"ici_tensor_parallelism": 16}}, "crosses hosts of 8 GPUs"),
        ({"gpu_network": "efa"}, "gpu_network is 'efa'"),
        ({"max_usd_per_hour": 100}, "an hour costs $184.42"),
        ({"replicas": 8}, "unknown key 'replicas'"),
    ],
)
def test_one_sentence_for_what_cannot_be(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        decide(made(**changes))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_dearer_region_is_held_to_the_limit() -> None:
    assert decide(made(max_usd_per_hour=190))
    with pytest.raises(SettingsError, match="an hour costs"):
        decide(made(regions=["us-central1", "us-west4"], max_usd_per_hour=190))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"replicas": 0}, "replicas"),
        ({"regions": []}, "regions"),
        ({"tier": "guaranteed"}, "tier"),
        ({"reservation": RESERVATION}, "reservation"),
        ({"max_wait_s": 5}, "max_wait_s"),
        ({"labels": {}}, "labels"),
        ({"tensorboard": TENSORBOARD}, "tensorboard"),
        ({"environment": {"A": ""}}, "environment"),
        ({"environment": {f"V{number}": "1" for number in range(101)}}, "environment"),
        ({"display_name": "x" * 129}, "display_name"),
    ],
)
def test_what_the_service_would_refuse_later_is_refused_at_once(changes: dict[str, Any], key: str) -> None:
    assert [found for found, _ in problems(VertexJobInputs(**vars(asked()) | changes))] == [key]
