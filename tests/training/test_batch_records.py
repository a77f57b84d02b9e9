"""Which records a step has read, against the batches that MaxText's own pipeline gives to the hosts."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import grain.python as grain
import pytest
from maxtext.input_pipeline import data_processing_utils, grain_data_processing
from maxtext.input_pipeline.protos import example_pb2

from tests.training.tiny import TINY, prepared_text
from training.batch_records import (
    NotTraceableError,
    Numbered,
    configuration,
    first_number,
    numbered_batches,
    records_of,
)
from training.maxtext_config import HostFiles, maxtext_arguments
from training.plan import Plan
from training.run_spec import RunSpec

STEPS, HOSTS, DEVICES = 40, 2, 2


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    root = tmp_path_factory.mktemp("data")
    data = prepared_text(root, root / "prepared")
    spec = RunSpec("test", "run", "cpu", 1, HOSTS, DEVICES, STEPS, str(root / "out"), data, TINY)
    arguments = maxtext_arguments(spec, HostFiles("", ""), 1)
    numbers = (HOSTS, "", DEVICES, spec.devices, STEPS, spec.tokens_per_step)
    record = root / "out" / "run" / "metrics" / "host-1.jsonl"
    return Plan(
        1,
        *numbers,
        str(root / "out" / "run" / "checkpoints"),
        "",
        str(record),
        1,
        1,
        1,
        0,
        0.0,
        data.directory,
        arguments,
    )


def maxtexts_own(plan: Plan) -> Any:
    """Its iterator for the plan's host, whose batch is asked of JAX, which knows one host here."""
    config = configuration(plan)
    config.global_batch_size_to_load = round(config.per_device_batch_size) * DEVICES
    dataset = grain_data_processing.get_datasets(
        config.grain_train_files,
        "arrayrecord",
        shuffle=config.enable_data_shuffling,
        shuffle_seed=config.data_shuffle_seed,
        shuffle_buffer_size=config.grain_shuffle_buffer_size,
        num_epoch=config.num_epoch,
        dataloading_host_index=plan.index,
        dataloading_host_count=plan.count,
        grain_worker_count=0,
        grain_num_threads=config.grain_num_threads,
        grain_prefetch_buffer_size=config.grain_prefetch_buffer_size,
        grain_data_source_max_workers=1,
    )
    return iter(grain_data_processing.pretrain_preprocessing_pipeline(dataset, config, ["text"], True, 0, 1))


def test_each_token_of_a_batch_is_of_the_record_that_is_said(plan: Plan) -> None:
    config = configuration(plan)
    files = grain_data_processing.find_data_files(config.grain_train_files)
    texts, (tokenizer, _) = grain.ArrayRecordDataSource(files), data_processing_utils.get_tokenizer_and_pad_id(config)
    numbered = iter(numbered_batches(config, plan, Numbered(files), plan.index, plan.count))
    for batch, numbers in itertools.islice(zip(maxtexts_own(plan), numbered, strict=False), STEPS):
        for tokens, own in zip(batch["targets"], numbers["targets"] - first_number(config), strict=True):
            for number in {int(number) for number in own if number >= 0}:
                piece = ",".join(str(token) for token in tokens[own == number])
                assert piece in ",".join(map(str, tokenizer.encode(text_of(texts[number])))), number


def text_of(record: bytes) -> str:
    examples: Any = example_pb2
    example = examples.Example()
    example.ParseFromString(record)
    return example.features.feature["text"].bytes_list.value[0].decode()


def test_from_a_checkpoint_on_it_is_what_it_is_from_the_first_step_on(plan: Plan) -> None:
    """The position of MaxText's iterator, as it saves it, is one of ours."""
    expected = records_of(plan, 30, 0)
    batches = maxtexts_own(plan)
    for _ in range(22):
        next(batches)
    state = Path(plan.checkpoints, "21", "iter", f"process_{plan.index}-of-{plan.count}.json")
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps(batches.get_state()))
    assert records_of(plan, 30, 30) == expected
    assert sum(record.tokens for record in expected) > 0


def test_of_one_host_in_the_place_of_two_it_is_what_both_read(plan: Plan) -> None:
    hosts = [dataclasses.replace(plan, index=index) for index in range(HOSTS)]
    for host in hosts:
        batches = iter(numbered_batches(configuration(plan), plan, Numbered(files_of(plan)), host.index, HOSTS))
        next(batches)
        state = Path(plan.checkpoints, "0", "iter", f"process_{host.index}-of-{HOSTS}.json")
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(json.dumps(batches.get_state()))
    one = dataclasses.replace(plan, index=0, count=1, devices_per_host=HOSTS * DEVICES)
    together = Counter[tuple[str, int]]()
    for host in hosts:
        together.update({(each.file, each.record): each.tokens for each in records_of(host, 9, 1)})
    assert {(each.file, each.record): each.tokens for each in records_of(one, 9, 1)} == together


def files_of(plan: Plan) -> list[str]:
    return grain_data_processing.find_data_files(configuration(plan).grain_train_files)


def test_what_is_not_followed_is_refused(plan: Plan) -> None:
    for field, said in {"dataset_type": "synthetic", "grain_use_elastic_iterator": True}.items():
        with pytest.raises(NotTraceableError):
            records_of(dataclasses.replace(plan, maxtext={**plan.maxtext, field: said}), 0, 0)
