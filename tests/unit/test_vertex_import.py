"""`slipway import`: what becomes of each key of a job's file, and the stack that is written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from infra.commands import import_ as import_command
from infra.commands.env import variables
from infra.commands.main import app
from infra.importing import command_line, job_text, vertex_job
from infra.importing.findings import Verdict
from infra.importing.vertex_job import Imported, ImportTerms
from infra.paths import ROOT
from infra.preview import stack_plan
from infra.preview.fit.compile_request import compile_request_of
from infra.runs import run_plan
from infra.sentences import SentenceError
from infra.stack_file import settings as stack_settings
from infra.stack_file.jaxlib_flags import of_locked_jaxlib

FILES = Path(__file__).with_name("job_files")
SHAPES = {"llama2-70b-4vm.json": "", "llama2-7b.json": "us-central1", "launcher.json": "", "gcloud-config.yaml": ""}
UNKNOWN = "is no field of a custom job that Slipway knows"


def of(text: str, name: str = "job.json", region: str = "") -> Imported:
    return vertex_job.imported(text, name, ImportTerms(region=region), variables)


def of_shape(name: str) -> Imported:
    return of((FILES / name).read_text(), name, SHAPES[name])


def job(*edits: tuple[str, Any], name: str = "job.json") -> Imported:
    """Of a small job of two hosts, with values at places like `jobSpec.scheduling.strategy`; None takes one away."""
    machine = {"machineType": "a3-megagpu-8g", "acceleratorType": "NVIDIA_H100_MEGA_80GB", "acceleratorCount": 8}
    command = ["python3", "-m", "MaxText.train", "base.yml", "model_name=llama2-7b", "steps=10"]
    container = {"imageUri": "python:3.12", "command": command, "env": []}
    pools = [{"machineSpec": dict(machine), "replicaCount": 1, "containerSpec": dict(container)} for _ in range(2)]
    document: Any = {"displayName": "a job", "jobSpec": {"workerPoolSpecs": pools}}
    for place, value in edits:
        at = document
        *parents, last = [int(key) if key.isdecimal() else key for key in re.findall(r"[^.\[\]]+", place)]
        for key in parents:
            at = at[key] if isinstance(key, int) else at.setdefault(key, {})
        if value is None:
            del at[last]
        else:
            at[last] = value
    return of(json.dumps(document), name, "us-central1")


POOL = "jobSpec.workerPoolSpecs[{}]."
ARGUMENTS = ["python3", "-m", "MaxText.train", "base.yml", "model_name=llama2-7b"]


def both(place: str, value: Any) -> list[tuple[str, Any]]:
    return [(POOL.format(index) + place, value) for index in range(2)]


def command(*words: str) -> list[tuple[str, Any]]:
    return both("containerSpec.command", [*ARGUMENTS, *words])


def said(made: Imported, verdict: Verdict) -> list[str]:
    """Of findings: what it is about, and why."""
    return [f"{finding.part}: {finding.why}" for finding in made.findings if finding.verdict is verdict]


# --- every key is accounted for ---


def strictly(text: str) -> Any:
    """The document, by readers that nobody here wrote."""
    if text.lstrip().startswith("#"):
        return yaml.safe_load(text)
    without_comments = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    return json.loads(re.sub(r",(?=\s*[]}])", "", without_comments))


def leaves(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, below in value.items():  # pyright: ignore[reportUnknownVariableType]
            yield from leaves(below, f"{path}.{key}" if path else str(key))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list) and value:
        for at, below in enumerate(value):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            yield from leaves(below, f"{path}[{at}]")
    else:
        yield path


@pytest.mark.parametrize("shape", SHAPES)
def test_every_key_of_the_public_samples_shapes_is_accounted_for(shape: str) -> None:
    made = of_shape(shape)
    paths = {path for finding in made.findings for path in finding.paths}
    assert paths == set(leaves(strictly((FILES / shape).read_text())))
    assert UNKNOWN not in {finding.why for finding in made.findings}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_stack_that_is_written_previews(shape: str) -> None:
    made = of_shape(shape)
    assert stack_settings.from_text(made.stack, made.text) == made.settings
    assert stack_plan.decide(made.settings).facts


WORDS = (
    *("", "a b", "x=1", "$A", "--xla_a=1", "NNODES", "'", "é", "HF_TOKEN=abcd", "steps=1"),
    "python -m MaxText.train a=1",
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 99) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "value", "env"]), inner),
    max_leaves=4,
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container with each of its keys."""
    entries: list[tuple[Any, Any]] = list(
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    return [*((value, key) for key, _ in entries), *(place for _, below in entries for place in places(below))]


@given(st.sampled_from(sorted(SHAPES)), st.integers(0, 10**6), ANYTHING)
def test_a_file_with_anything_anywhere_is_accounted_for_or_refused_in_a_sentence(
    shape: str, place: int, anything: Any
) -> None:
    document = strictly((FILES / shape).read_text())
    found = places(document)
    container, key = found[place % len(found)]
    container[key] = anything
    try:
        made = of(json.dumps(document), shape, SHAPES[shape])
    except SentenceError as error:
        assert "Traceback" not in str(error)
        return
    assert {path for finding in made.findings for path in finding.paths} == set(leaves(document))


# --- a job that contradicts itself ---


def test_the_job_whose_name_says_4_machines_and_whose_pools_have_8() -> None:
    made = of_shape("llama2-70b-4vm.json")
    assert said(made, Verdict.CONTRADICTORY) == [
        "NCCL_DEBUG: pools have INFO and VERSION; hosts of a stack are alike, and the first pool's holds",
        "NNODES: pools have 8 and 4; hosts of a stack are alike, and the first pool's holds",
        "llama2-70b-4vm.json: the name says 4vm, but the machines are 8, and that holds",
    ]
    assert made.stack == "vertex-a3-mega-8.reserved"
    assert made.text.partition("config:\n")[2] == (
        """\
  slipway:target: vertex
  slipway:project: my-project # yours; this one only previews
  slipway:owner: me@example.com
  slipway:accelerator: a3-mega-8
  slipway:regions: [us-east4]
  slipway:tier: reserved
  slipway:reservation: projects/some-project/zones/us-east4-a/reservations/some-a3-mega
  slipway:image: someone/maxtext-fastrak:06-11-2024
  slipway:steps: 400
  slipway:data: synthetic
  slipway:runs: gs://some-output
  slipway:xla_flags: --xla_dump_hlo_pass_re=.* """
        """--xla_gpu_all_reduce_combine_threshold_bytes=536870912 --xla_gpu_enable_pipelined_all_gather=true """
        """--xla_disable_hlo_passes=rematerialization
  slipway:training:
    scan_layers: true
    per_device_batch_size: 2
    max_target_length: 4096
    remat_policy: full
    model_name: llama2-70b
    checkpoint_period: 200
    ici_fsdp_parallelism: 64
"""
    )


def test_the_mesh_over_two_hosts_is_one_of_a_slice() -> None:
    made = of_shape("llama2-7b.json")
    assert {key: value for key, value in made.settings.training.items() if "parallelism" in key} == {
        "ici_data_parallelism": 2,
        "ici_fsdp_parallelism": 8,
    }
    assert "data is synthetic, until you name text (docs/data.md)" in made.assumed


RESERVATION = {"reservationAffinityType": "SPECIFIC_RESERVATION", "key": "compute.googleapis.com/reservation-name"}
NAMED = RESERVATION | {"values": ["projects/p/zones/us-central1-a/reservations/r"]}
TENSORBOARD = "projects/p/locations/us-east4/tensorboards/1"


@pytest.mark.parametrize(
    ("edits", "contradiction"),
    [
        (both("containerSpec.env", [{"name": "NNODES", "value": "4"}]), "NNODES=4: the machines are 2 hosts"),
        (
            [
                *both("containerSpec.env", [{"name": "NNODES", "value": "4"}]),
                *both("containerSpec.command", ["sh", "-c", "export N=$NNODES; python -m MaxText.train a=1"]),
            ],
            "NNODES=4: the machines are 2 hosts",
        ),
        ([("displayName", "llama_4VM_v1")], "llama_4VM_v1: the name says 4VM, but the machines are 2"),
        (command("run_name=x-16-nodes"), "x-16-nodes: the name says 16-nodes"),
        (both("machineSpec.acceleratorCount", 4), "acceleratorCount=4: a3-megagpu-8g has 8, and that holds"),
        (
            both("machineSpec.acceleratorType", "NVIDIA_H100_80GB"),
            "acceleratorType=NVIDIA_H100_80GB: a3-megagpu-8g has NVIDIA_H100_MEGA_80GB",
        ),
        (
            [*both("machineSpec.reservationAffinity", NAMED), ("jobSpec.scheduling.strategy", "SPOT")],
            "strategy=SPOT: a reservation goes with STANDARD, not SPOT",
        ),
        (
            [(POOL.format(1) + "machineSpec.reservationAffinity", NAMED)],
            "pool 0 has no reservation, so its hosts would be on demand",
        ),
        (
            [(POOL.format(1) + "machineSpec.machineType", "a3-highgpu-8g")],
            "machineType: pools have a3-megagpu-8g and a3-highgpu-8g",
        ),
        ([(POOL.format(1) + "containerSpec.imageUri", "another:1")], "imageUri=another:1: pool 0 has python:3.12"),
        ([(POOL.format(1) + "containerSpec.command", ["sleep", "1"])], "command: is another command"),
        ([("jobSpec.scheduling.strategy", "CHEAP")], "strategy=CHEAP: Vertex has no such strategy"),
        ([("jobSpec.scheduling.timeout", "a day")], "timeout=a day: is no length of time"),
        ([("jobSpec.worker_pool_specs", [])], "worker_pool_specs: is given in two spellings"),
        (command("steps=5", "steps=6"), "steps: is given as 5 and as 6; the last holds"),
        (command("hardware=tpu"), "hardware=tpu: a3-mega-2 is of platform gpu"),
        (command("num_slices=4"), "num_slices=4: the job has 2 hosts"),
        (command("dcn_data_parallelism=4", "ici_fsdp_parallelism=8"), "mesh dcn_data_parallelism 4 is 4, but there"),
        (
            command("steps=9", "learning_rate_schedule_steps=5"),
            "learning_rate_schedule_steps=5: is 5, but steps is 9: after it the learning rate is 0",
        ),
        (
            [
                *command("base_output_directory=gs://one/a"),
                ("jobSpec.baseOutputDirectory", {"outputUriPrefix": "gs://other/b"}),
            ],
            "outputUriPrefix=gs://other/b: base_output_directory of MaxText is gs://one/a",
        ),
        (
            both("containerSpec.env", [{"name": "USE_GPUDIRECT", "value": "tcpx"}]),
            "USE_GPUDIRECT=tcpx: a3-mega-2 has tcpxo",
        ),
        (
            [*both("machineSpec.reservationAffinity", NAMED), ("jobSpec.tensorboard", TENSORBOARD)],
            "us-east4: is in us-east4, and the reservation in us-central1, which holds",
        ),
    ],
)
def test_a_contradiction_is_said_and_the_stack_is_one_all_the_same(
    edits: list[tuple[str, Any]], contradiction: str
) -> None:
    if contradiction.startswith("worker_pool_specs"):
        text = '{"workerPoolSpecs": [], "worker_pool_specs": [{"machineSpec": {"machineType": "a3-megagpu-8g"}}]}'
        made = of(text, region="us-central1")
    else:
        made = job(*edits)
    assert [sentence for sentence in said(made, Verdict.CONTRADICTORY) if contradiction in sentence]
    assert stack_settings.from_text(made.stack, made.text) == made.settings


def test_two_values_of_a_variable_in_one_pool_and_of_a_key_in_one_place() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    assert said(job(*both("containerSpec.env", twice)), Verdict.CONTRADICTORY) == [
        "A: pool 0 has it twice; the last holds",
        "A: pool 1 has it twice; the last holds",
    ]
    text = json.dumps({"workerPoolSpecs": [{"machineSpec": {"machineType": "a3-megagpu-8g"}}]})
    made = of(f'{{"displayName": "a", "displayName": "b", {text[1:]}', region="us-central1")
    assert said(made, Verdict.CONTRADICTORY) == ["displayName: is given twice in the same place; the last one holds"]


# --- what becomes of single keys ---


@pytest.mark.parametrize(
    ("edits", "keys"),
    [
        ([("jobSpec.scheduling", {"strategy": "SPOT", "timeout": "86400s"})], {"tier": "spot", "timeout": 86400}),
        ([("jobSpec.scheduling", {"strategy": "LOW_COST"})], {"tier": "spot"}),
        ([("jobSpec.scheduling", {"strategy": "FLEX_START"})], {"tier": "flex-start", "max_runtime": 604800}),
        (
            [("jobSpec.scheduling", {"strategy": "FLEX_START", "timeout": "3600s", "maxWaitDuration": "7200s"})],
            {"max_runtime": 3600, "max_wait_duration": 7200, "timeout": None},
        ),
        ([("labels", {"team": "a", "Bad": "b"})], {"labels": {"team": "a"}}),
        ([("jobSpec.serviceAccount", "a@p.iam.gserviceaccount.com")], {"account": "a@p.iam.gserviceaccount.com"}),
        ([("jobSpec.serviceAccount", "1-compute@developer.gserviceaccount.com")], {"service_account": None}),
        ([("jobSpec.network", "projects/1/global/networks/n")], {"peered_network": "projects/1/global/networks/n"}),
        ([("jobSpec.network", "n")], {"peered_network": None}),
        ([("jobSpec.enableWebAccess", True)], {"web_access": True}),
        ([("name", "projects/1/locations/us-east4/customJobs/2")], {"regions": ("us-central1",)}),
        (both("diskSpec", {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 500}), {"boot_disk_gb": 500}),
        (command("attention=cudnn_flash_te", "learning_rate=3e-5"), {"training": {"learning_rate": 3e-5}}),
        (command("dtype=bfloat16", "remat_policy=full"), {"training": {"dtype": "bfloat16", "remat_policy": "full"}}),
        (
            command("ici_fsdp_parallelism=-1", "dcn_data_parallelism=2"),
            {"training": {"ici_fsdp_parallelism": 8, "ici_data_parallelism": 2}},
        ),
        (command("ici_fsdp_parallelism=16"), {"training": {"ici_fsdp_parallelism": 16}}),
        (command("dataset_type=synthetic"), {"data": "synthetic"}),
    ],
)  # fmt: skip
def test_what_a_key_becomes(edits: list[tuple[str, Any]], keys: dict[str, Any]) -> None:
    settings = job(*edits).settings
    for key, value in keys.items():
        found = getattr(settings, key)
        if key == "training":
            assert {name: each for name, each in found.items() if name != "model_name"} == value
        else:
            assert found == value


def test_an_image_without_a_digest_is_said() -> None:
    by_tag, by_digest = job(), of_shape("gcloud-config.yaml")
    [tag] = [each for each in said(by_tag, Verdict.RENAMED) if each.startswith("imageUri")]
    assert tag.endswith("a tag may be another image tomorrow: give it by @sha256:...")
    [digest] = [each for each in said(by_digest, Verdict.RENAMED) if each.startswith("imageUri")]
    assert "tomorrow" not in digest


@pytest.mark.parametrize(
    ("words", "arguments", "variables_set"),
    [
        (["bash", "-c", "cd /x && python3 -m MaxText.train base.yml a=1"], ("base.yml", "a=1"), ()),
        (["/bin/bash", "-xec", "export A=2; B=$A python MaxText/train.py b.yml a=${A}"], ("b.yml", "a=2"), ("A", "B")),
        (["python3 -m maxtext.trainers.pre_train.train c.yml \\\n  a='1 2'"], ("c.yml", "a=1 2"), ()),
        (["sh", "-c", "python3 -m MaxText.train $FLAGS"], ("x=1", "y=2"), ()),
        (["sh", "-c", "python3 -m MaxText.train a=1 # b=2\necho done"], ("a=1",), ()),
        (["bash", "run.sh"], None, ()),
        (["python3", "train.py", "--a=1"], None, ()),
        (["bash", "-c", "python3 -m MaxText.train 'a=1"], ("'a=1",), ()),
    ],
)
def test_maxtexts_arguments_are_found_in_a_command(
    words: list[str], arguments: tuple[str, ...] | None, variables_set: tuple[str, ...]
) -> None:
    found = command_line.read(words, {"FLAGS": "x=1 y=2"})
    assert found.words == arguments
    assert tuple(name for name, _ in found.variables) == variables_set


def test_nothing_that_starts_maxtext_trains_what_stack_new_writes() -> None:
    made = job(*both("containerSpec.command", ["python3", "run.py"]))
    assert made.settings.training["model_name"] == "llama3.1-8b"
    assert made.assumed[0].startswith("nothing in the file starts MaxText, so training is what `slipway stack new")


# --- secrets ---

SECRETS = (
    ("HF_TOKEN", "hf_abcdefghijklmnopqrst"),
    ("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567"),
    ("MY_PASSWORD", "correct horse"),
    ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG"),
    ("HARMLESS", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"),
    ("SERVICE", '{"private_key": "-----BEGIN PRIVATE KEY-----"}'),
)


@pytest.mark.parametrize(("name", "value"), SECRETS)
def test_a_secret_is_neither_written_nor_shown(name: str, value: str) -> None:
    of_variable = job(*both("containerSpec.env", [{"name": name, "value": value}]))
    differing = job(
        (POOL.format(0) + "containerSpec.env", [{"name": name, "value": value}]),
        (POOL.format(1) + "containerSpec.env", [{"name": name, "value": f"{value}2"}]),
    )
    script = f"{name}='{value}' login '{value}' && export {name}='{value}'; python3 -m MaxText.train a=1"
    in_command = job(*both("containerSpec.command", ["sh", "-c", script]))
    in_several = job(*both("containerSpec.command", ["sh", "-c", "login"]), *both("containerSpec.args", [value]))
    for made in (of_variable, differing, in_command, *([in_several] if name == "HARMLESS" else ())):
        assert value not in made.text and not any(value in str(finding) for finding in made.findings)
    [sentence] = [each for each in said(of_variable, Verdict.DROPPED) if each.startswith(f"{name}=(not shown)")]
    assert "write `slipway:host_secrets: [" in sentence


def test_the_known_secrets_are_named_as_the_foundation_has_them() -> None:
    dropped = said(of_shape("gcloud-config.yaml"), Verdict.DROPPED)
    assert any(each.startswith("WANDB_API_KEY=(not shown): ") and "[wandb]" in each for each in dropped)
    assert any(each.startswith("hf_access_token=(not shown): ") and "[huggingface]" in each for each in dropped)


# --- flags ---


def test_each_flag_is_dead_or_the_default_or_had_anyway_or_left_to_say() -> None:
    flags = (
        "--xla_gpu_graph_level=0 --xla_gpu_enable_async_all_gather=true --xla_gpu_enable_cudnn_fmha=false "
        "--xla_gpu_enable_highest_priority_async_stream=true --xla_gpu_enable_latency_hiding_scheduler=true "
        "--xla_gpu_enable_dynamic_slice_fusion=0 --xla_gpu_enable_dynamic_slice_fusion=false "
        "--xla_gpu_all_reduce_combine_treshold_bytes=1"
    )
    made = job(*both("containerSpec.env", [{"name": "XLA_FLAGS", "value": flags}]))
    version = of_locked_jaxlib().version
    why = {finding.part: finding.why for finding in made.findings}
    assert why["--xla_gpu_graph_level=0"].endswith(
        "write --xla_gpu_enable_command_buffer= for level 0 (openxla/xla#30187)"
    )
    assert "asynchronous anyway" in why["--xla_gpu_enable_async_all_gather=true"]
    assert why["--xla_gpu_enable_cudnn_fmha=false"] == f"jaxlib {version} takes it and does nothing"
    assert why["--xla_gpu_enable_highest_priority_async_stream=true"] == f"is the default of jaxlib {version}"
    assert why["--xla_gpu_enable_latency_hiding_scheduler=true"].startswith("hosts have it without being told: ")
    assert why["--xla_gpu_enable_dynamic_slice_fusion"] == "is given 2 times: 0, false; the last holds, as in jaxlib"
    assert why["--xla_gpu_all_reduce_combine_treshold_bytes=1"].endswith(
        "; nearest: --xla_gpu_all_reduce_combine_threshold_bytes"
    )
    assert made.settings.compiler_flags == ("--xla_gpu_enable_dynamic_slice_fusion=false",)


def test_a_variable_of_nccl_is_the_plugins_own_set_or_not() -> None:
    given = {"NCCL_FASTRAK_NUM_FLOWS": "2", "NCCL_PROTO": "Simple", "NCCL_ALGO": "Ring", "NCCL_DYNAMIC_CHUNK_SIZE": "1"}
    made = job(*both("containerSpec.env", [{"name": name, "value": value} for name, value in given.items()]))
    why = {finding.part.partition("=")[0]: finding.why for finding in made.findings}
    assert why["NCCL_FASTRAK_NUM_FLOWS"] == "hosts have it without being told: flows for each connection"
    assert why["NCCL_PROTO"].startswith("hosts have Simple,LL128: NCCL's plugin v1.0.")
    assert why["NCCL_ALGO"].endswith("is chosen as a whole, and this is not in it")
    assert "Google took it out of its set" in why["NCCL_DYNAMIC_CHUNK_SIZE"]


def test_xla_flags_of_a_stack_must_be_the_locked_jaxlibs() -> None:
    text = (ROOT / "stacks" / "Pulumi.vertex-a3-mega-2.yaml").read_text()
    wrong = text.replace("  slipway:steps:", "  slipway:xla_flags: --xla_gpu_graph_level=0\n  slipway:steps:")
    with pytest.raises(
        stack_settings.SettingsError, match=r"xla_flags has --xla_gpu_graph_level in .*_command_buffer="
    ):
        stack_settings.from_text("vertex-a3-mega-2", wrong)
    known = wrong.replace("graph_level=0", "enable_dynamic_slice_fusion=false --xla_dump_to=/x")
    good = stack_settings.from_text("vertex-a3-mega-2", known)
    assert isinstance(good, stack_settings.Settings)
    flags = {each.value: each.why for each in variables(good) if each.name == "XLA_FLAGS"}
    assert flags["--xla_gpu_enable_dynamic_slice_fusion=false"] == "xla_flags of the stack"
    request = compile_request_of(good, run_plan.run_spec(good, "/", None))
    assert request.gpu and "--xla_gpu_enable_dynamic_slice_fusion=false" in request.gpu.flags
    assert not [flag for flag in request.gpu.flags if "dump" in flag], "files are wanted of hosts"


# --- files that are no job ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1', "job.json is not JSON at line 1, column 8: write `,` or `}`, not the end of the file"),
        ('{\n "a": [1 2]}', "job.json is not JSON at line 2, column 10: write `,` or `]`, not '2]}'"),
        ('{"a" 1}', "job.json is not JSON at line 1, column 6: write `:` after key 'a', not '1}'"),
        ("{'a': 1}", "job.json is not JSON at line 1, column 2: write a key in double quotes, not \"'a': 1}\""),
        ('{"a": yes}', "job.json is not JSON at line 1, column 7: 'yes' is no value of JSON"),
        ('{"a": "b', "job.json is not JSON at line 1, column 7: a text begins here and does not end"),
        ('{"a": 1} {', "job.json is not JSON at line 1, column 10: nothing may follow, but there is '{'"),
        ("{,}", "job.json is not JSON at line 1, column 2: write a key in double quotes, not ',}'"),
        ("a: [1\nb: 2", "job.json is neither JSON nor YAML at line 2, column 2:"),
        ("", "job.json has no job: write JSON that begins with {, or YAML"),
        ("just words", "job.json has no job"),
        ("&a [*a]", "job.json has no job"),
        ("[" * 5000, "job.json is nested too deep"),
        ("{}", "job.json has no workerPoolSpecs, so it is no custom job of Vertex AI"),
        ('{"studySpec": {}, "workerPoolSpecs": []}', "the file is a job of hyperparameter tuning"),
        ('{"workerPoolSpecs": []}', "the file has no worker pool with a machine"),
        ('{"workerPoolSpecs": [{"replicaCount": 1}]}', "the file names no machineType"),
        (
            '{"workerPoolSpecs": [{"machineSpec": {"machineType": "n1-standard-4"}}]}',
            "machineType is 'n1-standard-4', which infra/hardware.yaml does not have; it has: ",
        ),
        (
            '{"workerPoolSpecs": [{"machineSpec": {"machineType": "a3-megagpu-8g"}, "replicaCount": 3}]}',
            "the job has 3 hosts of a3-megagpu-8g, and infra/hardware.yaml has no such size: a3-mega-1 (1), a3-mega-2",
        ),
        (
            '{"workerPoolSpecs": [{"machineSpec": {"machineType": "a3-megagpu-8g"}}]}',
            "the file does not say where the job runs, since that stands in the address it is sent to; give --region",
        ),
    ],
)  # fmt: skip
def test_what_is_no_job_is_refused_with_where_and_why(text: str, message: str) -> None:
    with pytest.raises(SentenceError) as error:
        of(text)
    assert str(error.value).startswith(message)


SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8)
DOCUMENTS = st.dictionaries(
    st.text(max_size=4),
    st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)),
    max_size=4,
)


def plain(node: job_text.JobNode) -> Any:
    if node.is_mapping:
        return {key: plain(entry) for key, entry in node.entries.items()}
    return [plain(item) for item in node.items] if node.is_list else node.value


@given(DOCUMENTS)
def test_json_is_read_as_the_standard_library_reads_it_also_with_commas_and_comments(document: Any) -> None:
    text = json.dumps(document, indent=1)
    assert plain(job_text.read(text, "x")) == document
    commas = re.sub(r"([^{[,\n])\n( *[]}])", r"\1,\n\2", text)  # before a bracket that ends a line's block
    assert plain(job_text.read(f"// a comment\n{commas}/* another */", "x")) == document


# --- the command ---


def test_it_writes_the_stack_and_never_over_one_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_command, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")  # pyright: ignore
    words = ["import", "vertex-json", str(FILES / "llama2-70b-4vm.json")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert done.output.startswith(
        "contradictory:\n  NCCL_DEBUG (jobSpec.workerPoolSpecs[0].containerSpec.env[1].name and 3"
    )
    assert "  replicaCount=7 -> accelerator: a3-mega-8 has 8 hosts\n" in done.output
    assert "assumed: project is my-project, which only previews" in done.output
    stack = "vertex-a3-mega-8.reserved"
    written = f"stacks/Pulumi.{stack}.yaml is written; see what it would cost: slipway preview {stack}\n"
    assert done.output.endswith(written)
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 2
    assert "is there already; write over it with --force, or give another --variant" in again.output
    forced = CliRunner().invoke(app, [*words, "--force", "--json", "--project", "a-project-1", "--owner", "me"])
    document = json.loads(forced.output)
    assert document["stack"] == "vertex-a3-mega-8.reserved" and document["assumed"] == []
    assert {finding["verdict"] for finding in document["findings"]} == {verdict.value for verdict in Verdict}
    assert "  slipway:project: a-project-1\n" in (tmp_path / "Pulumi.vertex-a3-mega-8.reserved.yaml").read_text()


def test_a_job_may_become_a_stack_of_gke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_command, "stack_file", lambda stack: tmp_path / f"Pulumi.{stack}.yaml")  # pyright: ignore
    words = ["import", "vertex-json", str(FILES / "llama2-7b.json"), "--region", "us-central1", "--target", "gke-gpu"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "  slipway:zones: [us-central1-a]\n" in (tmp_path / "Pulumi.gke-a3-mega-2.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["vertex-json", "nowhere.json"], "nowhere.json cannot be read: No such file or directory"),
        (["vertex-json", str(FILES / "launcher.json"), "--target", "local"], "--target is 'local', where no training"),
        (["xla-flags", "file"], "which is no flag"),
        (["xla-flags", "--xla_a=1", "--stack", "foundation.us-central1"], "trains nothing"),
    ],
)
def test_what_the_command_refuses(words: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["import", *words])
    assert message in done.output.replace("\n", " ")


def test_flags_alone() -> None:
    flags = "--xla_gpu_graph_level=0 --xla_gpu_enable_dynamic_slice_fusion=false --xla_gpu_enable_triton_gemm=false"
    done = CliRunner().invoke(app, ["import", "xla-flags", "--json", flags])
    assert json.loads(done.output)["left"] == "--xla_gpu_enable_dynamic_slice_fusion=false"
    beside = CliRunner().invoke(app, ["import", "xla-flags", "--stack", "vertex-a3-mega-2", *flags.split()])
    assert beside.output.startswith("dropped:\n  --xla_gpu_graph_level=0: jaxlib ")
    assert beside.output.endswith("left to say: --xla_gpu_enable_dynamic_slice_fusion=false\n")
