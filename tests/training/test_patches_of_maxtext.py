"""Our patches of MaxText: what each makes work in a real MaxText, and that it does not work without.

Everything runs in processes of its own, with the installed MaxText or with a patched copy of it on PYTHONPATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from array_record.python.array_record_module import ArrayRecordWriter
from maxtext.input_pipeline.protos import example_pb2

from tests.training.cluster import PATIENCE_S, ROOT, XLA_FLAGS, free_port, plain_environment
from tests.training.patched_maxtext import INSTALLED, patch_into


@dataclass(frozen=True)
class MaxText:
    """A MaxText to run: the installed one, or the copy below `directory`."""

    directory: Path | None = None

    def start(self, code: str, arguments: Sequence[str], flags: str = "") -> subprocess.Popen[str]:
        path = os.pathsep.join([*([str(self.directory)] if self.directory else []), str(ROOT)])
        own = {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{XLA_FLAGS} {flags}", "HF_HUB_OFFLINE": "1"}
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            env=plain_environment() | own,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def ended(processes: Sequence[subprocess.Popen[str]]) -> list[str]:
    """Wait for all, and return what each has said."""
    try:
        return [process.communicate(timeout=PATIENCE_S)[0] for process in processes]
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def answers(output: str) -> list[Any]:
    """What the code of a process has answered, as JSON, between MaxText's own lines."""
    return [json.loads(line.removeprefix("answer: ")) for line in output.splitlines() if line.startswith("answer: ")]


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> MaxText:
    directory = tmp_path_factory.mktemp("patched")
    patch_into(directory)
    return MaxText(directory)


CONFIG = """
import json, sys
import jax
import numpy as np
from training.maxtext_imports import quick
with quick():
    import maxtext
    from maxtext.configs import pyconfig
    from maxtext.input_pipeline import input_pipeline_interface
    from maxtext.trainers.pre_train import train
    from maxtext.utils import maxtext_utils
def configured(*fields):
    return pyconfig.initialize(["", maxtext.__path__[0] + "/configs/base.yml", *fields])
def answer(value):
    print("answer: " + json.dumps(value), flush=True)
"""

# 0001-hybrid-mesh-of-cpu-processes

TINY = (
    "run_name=tiny", "hardware=cpu", "dataset_type=synthetic", "steps=2", "enable_checkpointing=false",
    "log_config=false", "base_emb_dim=32", "base_num_query_heads=2", "base_num_kv_heads=2", "base_mlp_dim=64",
    "base_num_decoder_layers=1", "head_dim=16", "vocab_size=64", "max_target_length=16", "per_device_batch_size=1",
    "attention=dot_product", "enable_tensorboard=false", "jax_cache_dir=", "enable_goodput_recording=false",
)  # fmt: skip
TWO_SLICES = ("num_slices=2", "dcn_data_parallelism=2", "ici_fsdp_parallelism=4")

# After the mesh, what a slice may be besides a process, with devices that say no more than where they would be.
MESH = (
    CONFIG
    + """
from types import SimpleNamespace
from jax.experimental import mesh_utils
address, index, count, *fields = sys.argv[1:]
jax.distributed.initialize(address, int(count), int(index), cluster_detection_method="deactivate")
config, recorder = train.initialize(["", maxtext.__path__[0] + "/configs/base.yml", *fields])
mesh = maxtext_utils.create_device_mesh(config)
same = mesh_utils.create_hybrid_device_mesh(config.ici_parallelism, config.dcn_parallelism, process_is_granule=True)
answer({"axes": dict(zip(config.mesh_axes, mesh.shape)), "as jax makes it": bool((mesh == same).all())})

def layout(ici, dcn, devices_per_process):
    ids = (3, 1, 2, 0, 7, 6, 5, 4)
    devices = [SimpleNamespace(platform="cpu", process_index=id // devices_per_process, id=id) for id in ids]
    return [[device.id for device in row] for row in maxtext_utils.create_cpu_hybrid_device_mesh(ici, dcn, devices)]
answer([layout([1, 4], [2, 1], 2), layout([2, 1], [2, 2], 2), layout([1, 4], [2, 1], 8)])
"""
)


def run_as_slices(maxtext: MaxText, directory: Path, processes: int) -> list[str]:
    """What each process says that has its share of eight devices."""
    address = f"127.0.0.1:{free_port()}"
    fields = [*TINY, *TWO_SLICES, f"base_output_directory={directory}"]
    share = f"--xla_force_host_platform_device_count={8 // processes}"
    each = ([address, str(index), str(processes), *fields] for index in range(processes))
    return ended([maxtext.start(MESH, arguments, share) for arguments in each])


@pytest.fixture(scope="module")
def two_processes(patched: MaxText, tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    outputs = run_as_slices(patched, tmp_path_factory.mktemp("slices"), 2)
    return [answers(output) or pytest.fail(output[-4000:]) for output in outputs]


def test_two_processes_are_two_slices(two_processes: list[list[Any]]) -> None:
    """Each process of four devices is a slice: data parallel between them, FSDP inside. test_lives.py trains so."""
    for mesh, _ in two_processes:
        assert {axis: size for axis, size in mesh["axes"].items() if size > 1} == {"data": 2, "fsdp": 4}
        assert mesh["as jax makes it"]


def test_slice_can_be_several_processes_or_a_part_of_one(two_processes: list[list[Any]]) -> None:
    """Four processes of two devices as two slices, then as four; and two slices in a process of eight devices."""
    for _, (two_slices, four_slices, one_process) in two_processes:
        assert two_slices == [[0, 1, 2, 3], [4, 5, 6, 7]]
        assert four_slices == [[0, 2], [1, 3], [4, 6], [5, 7]]
        assert one_process == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_without_the_patch_cpu_devices_make_no_slices(tmp_path: Path) -> None:
    (output,) = run_as_slices(MaxText(), tmp_path, 1)
    assert not answers(output)
    assert "Number of slices 1 must equal the product of dcn_mesh_shape" in output


# 0002-keep-precomputed-segmentation

LENGTH = 8
PLAIN = [{"text": [11, 12, 13, 14, 15, 16, 17, 18]}, {"text": [21, 22, 23, 24, 25]}]
# Two documents in the first record, and a prompt in the second of which no loss is wanted.
PACKED = [
    PLAIN[0]
    | {
        "inputs_segmentation": [1, 1, 1, 2, 2, 2, 2, 2],
        "inputs_position": [0, 1, 2, 0, 1, 2, 3, 4],
        "targets_segmentation": [1, 1, 1, 2, 2, 2, 2, 2],
        "targets_position": [0, 1, 2, 0, 1, 2, 3, 4],
    },
    PLAIN[1]
    | {
        "inputs_segmentation": [1, 1, 1, 1, 1],
        "inputs_position": [0, 1, 2, 3, 4],
        "targets_segmentation": [0, 0, 0, 1, 1],
        "targets_position": [0, 1, 2, 3, 4],
    },
]

BATCHES = (
    CONFIG
    + """
for fields in json.loads(sys.argv[1]):
    config = configured(*fields)
    mesh = jax.sharding.Mesh(maxtext_utils.create_device_mesh(config), config.mesh_axes)
    iterator, _ = input_pipeline_interface.create_data_iterator(config, mesh)
    try:
        answer({name: np.asarray(column).tolist() for name, column in next(iterator).items()})
    except Exception as error:
        answer(str(error))
"""
)


def record(columns: dict[str, list[int]] | dict[str, str]) -> bytes:
    example: Any = example_pb2.Example()  # pyright: ignore[reportAttributeAccessIssue]  the class is made at import
    for name, values in columns.items():
        feature = example.features.feature[name]
        if isinstance(values, str):
            feature.bytes_list.value.append(values.encode())
        else:
            feature.int64_list.value.extend(values)
    return example.SerializeToString()


def written(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    writer = ArrayRecordWriter(str(path), "group_size:1")
    for columns in records:
        writer.write(record(columns))
    writer.close()
    return path


@dataclass(frozen=True)
class Batches:
    """The first batch, or the error, of each file of records."""

    kept: Any
    plain: Any
    plain_to_pack: Any
    text: Any
    packed_to_pack: Any
    wrong_length: Any
    some: Any


def batches(maxtext: MaxText, directory: Path) -> Batches:
    some = [{name: values for name, values in columns.items() if "targets" not in name} for columns in PACKED]
    wrong = [PACKED[0] | {"inputs_position": [0, 1, 2]}, PACKED[1]]
    text = [{"text": "ab cd " * 4, "inputs_segmentation": [1, 2]}, {"text": "ef"}]
    cases = {
        "kept": (PACKED, ()),
        "plain": (PLAIN, ()),
        "plain_to_pack": (PLAIN, ("packing=true",)),
        "text": (text, ("tokenize_train_data=true",)),
        "packed_to_pack": (PACKED, ("packing=true",)),
        "wrong_length": (wrong, ()),
        "some": (some, ()),
    }
    always = [
        "run_name=data", "hardware=cpu", "skip_jax_distributed_system=true", f"base_output_directory={directory}",
        "log_config=false", "dataset_type=grain", "grain_file_type=arrayrecord", "train_data_columns=['text']",
        "packing=false", "enable_data_shuffling=false", "tokenize_train_data=false", "tokenizer_type=sentencepiece",
        f"tokenizer_path={INSTALLED}/assets/tokenizers/tokenizer.default", f"max_target_length={LENGTH}",
        "grain_worker_count=0", "per_device_batch_size=2", "jax_cache_dir=",
    ]  # fmt: skip
    fields: list[list[str]] = []
    for name, (records, extra) in cases.items():
        path = written(directory / f"{name}.array_record", records)
        own = {field.partition("=")[0] for field in extra}
        fields.append([f for f in always if f.partition("=")[0] not in own] + [*extra, f"grain_train_files={path}"])
    (output,) = ended([maxtext.start(BATCHES, [json.dumps(fields)])])
    found = answers(output)
    assert len(found) == len(cases), output[-4000:]
    return Batches(**dict(zip(cases, found, strict=True)))


@pytest.fixture(scope="module")
def with_patch(patched: MaxText, tmp_path_factory: pytest.TempPathFactory) -> Batches:
    return batches(patched, tmp_path_factory.mktemp("with"))


@pytest.fixture(scope="module")
def without_patch(tmp_path_factory: pytest.TempPathFactory) -> Batches:
    return batches(MaxText(), tmp_path_factory.mktemp("without"))


def test_columns_of_packed_records_are_kept(with_patch: Batches) -> None:
    """Short records end in padding of segment 0; targets are shifted together with what says of their loss."""
    batch = with_patch.kept
    assert batch["inputs"][0] == PACKED[0]["text"] and batch["targets"][0][:-1] == PACKED[0]["text"][1:]
    assert batch["inputs_segmentation"] == [[1, 1, 1, 2, 2, 2, 2, 2], [1, 1, 1, 1, 1, 0, 0, 0]]
    assert batch["inputs_position"] == [[0, 1, 2, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 0, 0, 0]]
    assert batch["targets_segmentation"] == [[1, 1, 2, 2, 2, 2, 2, 0], [0, 0, 1, 1, 0, 0, 0, 0]]
    assert batch["targets_position"] == batch["inputs_position"]
    assert sorted(batch) == sorted(with_patch.plain)


def test_without_the_patch_documents_run_together_and_loss_masks_are_lost(without_patch: Batches) -> None:
    batch = without_patch.kept
    assert batch["inputs_segmentation"][0] == [1] * LENGTH
    assert batch["inputs_position"][0] == list(range(LENGTH))
    assert batch["targets_segmentation"][1][:4] == [1, 1, 1, 1]


def test_columns_that_a_record_does_not_have_are_made_as_before(with_patch: Batches) -> None:
    assert with_patch.some["inputs_segmentation"] == with_patch.kept["inputs_segmentation"]
    assert with_patch.some["targets_segmentation"] == with_patch.plain["targets_segmentation"]


@pytest.mark.parametrize("name", ["plain", "plain_to_pack", "text"])
def test_other_records_make_the_batches_that_they_made(name: str, with_patch: Batches, without_patch: Batches) -> None:
    batch = getattr(with_patch, name)
    assert isinstance(batch, dict) and batch == getattr(without_patch, name)


def test_packing_what_is_packed_is_refused(with_patch: Batches, without_patch: Batches) -> None:
    assert "packing=True would pack them again. Set packing=False" in with_patch.packed_to_pack
    assert isinstance(without_patch.packed_to_pack, dict)


def test_column_that_does_not_fit_its_tokens_is_refused(with_patch: Batches) -> None:
    assert "Column 'inputs_position' has 3 values, but the record has 8 tokens" in with_patch.wrong_length
