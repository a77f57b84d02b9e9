"""MaxText's arguments, and that MaxText reads them as they were meant."""

from __future__ import annotations

import dataclasses
import json

import omegaconf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.cluster import ROOT
from training.maxtext_config import ConfigError, HostFiles, command_line, maxtext_arguments
from training.run_spec import DataSpec, RunSpec
from training.sharding import AXES

FILES = HostFiles("/host/metrics.jsonl", "/cache/jax")
HELDOUT_TOKENS = 5_000
SPEC = RunSpec(
    stack="cpu-8",
    run_name="r",
    platform="cpu",
    slices=1,
    hosts_per_slice=2,
    devices_per_host=4,
    steps=300,
    output_directory="/out",
    data=DataSpec("/data", "c0ffee", 2),
    maxtext={"per_device_batch_size": 1, "max_target_length": 128, "eval_interval": 80, "vocab_size": 4096},
)


def with_fields(spec: RunSpec, **fields: str | int | float | bool) -> RunSpec:
    return dataclasses.replace(spec, maxtext={**spec.maxtext, **fields})


def test_data_becomes_grain_over_the_prepared_shards() -> None:
    arguments = maxtext_arguments(SPEC, FILES, HELDOUT_TOKENS)
    assert (
        arguments
        | {
            "dataset_type": "grain",
            "grain_train_files": "/data/train-*.array_record",
            "grain_eval_files": "/data/heldout-*.array_record",
            "tokenizer_path": "/data/tokenizer.model",
            "use_truncation": False,
            "num_epoch": 3,
            "enable_autocheckpoint": True,
            "metrics_file": "/host/metrics.jsonl",
            "learning_rate_schedule_steps": 300,
        }
        == arguments
    )


def test_brackets_in_the_data_directory_are_no_pattern() -> None:
    spec = dataclasses.replace(SPEC, data=DataSpec("/my [data]", "c", 1))
    assert maxtext_arguments(spec, FILES, HELDOUT_TOKENS)["grain_train_files"] == "/my [[]data]/train-*.array_record"


def test_no_data_is_synthetic() -> None:
    arguments = maxtext_arguments(with_fields(dataclasses.replace(SPEC, data=None), eval_interval=-1), FILES, None)
    assert arguments["dataset_type"] == "synthetic"
    assert "grain_train_files" not in arguments


@given(steps=st.integers(1, 10_000), interval=st.integers(1, 500))
def test_last_step_is_evaluated(steps: int, interval: int) -> None:
    spec = with_fields(dataclasses.replace(SPEC, steps=steps), eval_interval=interval)
    start = maxtext_arguments(spec, FILES, HELDOUT_TOKENS)["eval_start_step"]
    assert isinstance(start, int)
    assert start <= steps - 1 and (steps - 1 - start) % interval == 0  # MaxText's own condition
    assert start < interval


@given(heldout=st.integers(1, 10**7))
def test_evaluation_batches_hold_the_held_out_text(heldout: int) -> None:
    arguments = maxtext_arguments(SPEC, FILES, heldout)
    steps = arguments["eval_steps"]
    assert isinstance(steps, int) and arguments["generate_padding_batch_eval"] is True
    assert heldout * 1.25 <= steps * 128 * 8 <= heldout * 1.25 + 2 * 128 * 8


def test_evaluation_batches_of_the_stack_stay() -> None:
    assert maxtext_arguments(with_fields(SPEC, eval_steps=7), FILES, HELDOUT_TOKENS)["eval_steps"] == 7


def test_schedule_of_the_stack_stays() -> None:
    spec = with_fields(SPEC, learning_rate_schedule_steps=900)
    assert maxtext_arguments(spec, FILES, HELDOUT_TOKENS)["learning_rate_schedule_steps"] == 900


def test_field_that_launch_sets_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"run spec sets maxtext.metrics_file, which training.launch sets"):
        maxtext_arguments(with_fields(SPEC, metrics_file="/x"), FILES, HELDOUT_TOKENS)


def test_slices_of_virtual_devices_are_said_and_the_mesh_stays() -> None:
    """CPU devices do not know their slice; everything else is as on a TPU."""
    spec = with_fields(dataclasses.replace(SPEC, slices=2), ici_fsdp_parallelism=8, dcn_data_parallelism=2)
    arguments = maxtext_arguments(spec, FILES, HELDOUT_TOKENS)
    assert arguments["num_slices"] == 2
    sizes = {key: value for key, value in arguments.items() if key.endswith("_parallelism")}
    assert sizes == {"ici_fsdp_parallelism": 8, "dcn_data_parallelism": 2}


def test_every_axis_of_the_mesh_has_its_two_fields() -> None:
    """MaxText's mesh has an axis `stage`; a field `ici_stage_parallelism` it refuses."""
    fields = json.loads((ROOT / "training" / "maxtext_schema.json").read_text())["fields"]
    assert {f"{network}_{axis}_parallelism" for network in ("ici", "dcn") for axis in AXES} <= fields.keys()


def test_slices_are_not_said_where_devices_know_theirs_or_there_is_one() -> None:
    for spec in (dataclasses.replace(SPEC, slices=2, platform="tpu"), SPEC):
        assert "num_slices" not in maxtext_arguments(spec, FILES, HELDOUT_TOKENS)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z_]{0,9}", fullmatch=True),
        st.text(st.characters(codec="utf-8", exclude_characters="$")) | st.integers() | st.booleans()
        | st.floats(allow_nan=False, allow_infinity=False) | st.lists(st.text("ab ,[]:#'\"", max_size=5)),
    )
)  # fmt: skip
def test_maxtexts_reader_sees_every_value_as_it_was(arguments: dict[str, str | int | float | bool | list[str]]) -> None:
    read = omegaconf.OmegaConf.from_cli(command_line(arguments))
    assert omegaconf.OmegaConf.to_container(read) == arguments
