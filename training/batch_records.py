"""`python -m training.batch_records plan.json BAD`: which records of the prepared data the bad step of a run has read.

Owns how a batch is traced back: MaxText's own input pipeline runs with each token replaced by the number of its record,
so records are cut, packed and batched as in the training. Beside the run's metrics it leaves `bad-step-N-host-I.json`.
Refuses to own what a bad step is (training/loss_judge.py), which it is told, as JSON, for only another host may have
seen it. A process of its own: the training has ended by then.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grain.python as grain
import numpy as np
import yaml
from etils import epath

from training import checkpoints, maxtext_imports
from training.checkpoints import is_remote, labels
from training.loss_judge import BadStep
from training.plan import Plan, load
from training.reader_shares import share

with maxtext_imports.quick():
    import maxtext
    from maxtext.input_pipeline import (
        data_processing_utils,
        grain_data_processing,
        grain_tokenizer,
        input_pipeline_utils,
    )
    from maxtext.input_pipeline.protos import example_pb2

_EXAMPLES: Any = example_pb2  # its classes are made when it is imported
_PADDING = -1  # where a row has no token of a record
_NOT_FOLLOWED = ("grain_train_mixture_config_path", "grain_use_elastic_iterator", "enable_rampup_batch_size")


class NotTraceableError(ValueError):
    """Which records a step reads cannot be told; the message says why."""


@dataclass(frozen=True)
class ReadRecord:
    """`record` counts from 0 in its file; `tokens` of it are in the batch."""

    file: str
    record: int
    tokens: int


def records_of(plan: Plan, step: int, before: int) -> list[ReadRecord]:
    """What the plan's host read for a step, from the newest checkpoint before `before` on. Raises NotTraceableError."""
    config = configuration(plan)
    source = Numbered(grain_data_processing.find_data_files(config.grain_train_files))
    directory: Any = epath.Path(plan.checkpoints)
    newest = max((label for label in labels(directory, is_remote(plan.checkpoints)) if label < before), default=-1)
    readers = checkpoints.readers(directory, newest, plan.count)
    own = share(readers, plan.count, plan.index)
    rows: list[np.ndarray] = []
    for reader in own.readers:
        batches = iter(numbered_batches(config, plan, source, reader, readers))
        if newest >= 0:
            state = directory / str(newest) / "iter" / f"process_{reader}-of-{readers}.json"
            batches.set_state(json.loads(state.read_text()))
        batch = next(itertools.islice(batches, step - newest - 1, None), None)
        if batch is None:
            raise NotTraceableError(f"the data ends before step {step}")
        rows.append(np.where(batch["targets_segmentation"] > 0, batch["targets"] - first_number(config), _PADDING))
    numbers = own.own(np.concatenate(rows))
    read = Counter(numbers[numbers != _PADDING])
    return [ReadRecord(*source.place(int(number)), tokens) for number, tokens in sorted(read.items())]


def write(plan: Plan, bad: BadStep, records: Sequence[ReadRecord]) -> str:
    """Returns the file, which may be in a bucket."""
    path: Any = epath.Path(plan.records_of(bad.step))
    said = dataclasses.asdict(bad) | {"records": [dataclasses.asdict(record) for record in records]}
    path.write_text(json.dumps(said, indent=1) + "\n")
    return str(path)


class Numbered:
    """The records of array record files, each with its number before its text; read as grain reads a source."""

    def __init__(self, files: list[str]) -> None:
        self._files = files
        self._records: Any = grain.ArrayRecordDataSource(files)
        each: list[Any] = [grain.ArrayRecordDataSource([file]) for file in files]
        self._ends = list(itertools.accumulate(map(len, each)))

    def __len__(self) -> int:
        return len(self._records)

    def __getitem__(self, number: int) -> bytes:
        example = _EXAMPLES.Example()
        example.ParseFromString(self._records[number])
        (text,) = example.features.feature["text"].bytes_list.value
        example.features.feature["text"].bytes_list.value[0] = b"%d\n%s" % (number, text)
        return example.SerializeToString()

    def place(self, number: int) -> tuple[str, int]:
        """The file of a record, and its number there."""
        file = bisect.bisect_right(self._ends, number)
        return Path(self._files[file]).name, number - (self._ends[file - 1] if file else 0)


class _Numbering:
    """A tokenizer that gives each token of a text the number that stands before the text."""

    def __init__(self, tokenizer: Any, first: int) -> None:
        self._tokenizer, self._first = tokenizer, first

    def encode(self, numbered: str) -> list[int]:
        number, _, text = numbered.partition("\n")
        return [self._first + int(number)] * len(self._tokenizer.encode(text))


def configuration(plan: Plan) -> SimpleNamespace:
    """The fields of MaxText's configuration that its input pipeline reads."""
    base = Path(next(iter(maxtext.__path__))) / "configs" / "base.yml"
    config = SimpleNamespace(**yaml.safe_load(base.read_text()) | plan.maxtext)
    if config.dataset_type != "grain":
        raise NotTraceableError("the data is synthetic")
    followed = [field for field in _NOT_FOLLOWED if getattr(config, field, None)]
    if followed or config.expansion_factor_real_data not in (-1, 1):
        raise NotTraceableError(f"batches with {', '.join(followed) or 'expansion_factor_real_data'} are not followed")
    return config


def numbered_batches(config: SimpleNamespace, plan: Plan, source: Any, reader: int, readers: int) -> Any:
    """MaxText's `pretrain_preprocessing_pipeline`, and what it is given, with a tokenizer of our own."""
    (column,) = config.train_data_columns
    dataset = grain_data_processing._apply_mapdataset_transforms(
        grain.MapDataset.source(source),
        config.enable_data_shuffling,
        config.data_shuffle_seed,
        config.num_epoch,
        reader,
        readers,
        config.grain_num_threads,
        config.grain_prefetch_buffer_size,
    )
    dataset = data_processing_utils.parse_and_keep_features(dataset, config, [column], tokenize=True)
    tokenizer, padding = data_processing_utils.get_tokenizer_and_pad_id(config)
    numbering: Any = _Numbering(tokenizer, first_number(config))
    dataset = dataset.apply(grain_tokenizer.TokenizeAndChunk(column, config.max_target_length, numbering))
    dataset = dataset.map(input_pipeline_utils.Rekey(dict.fromkeys(("inputs", "targets"), column)))
    batch = plan.rows_per_step // readers
    columns = ("inputs", "targets")
    dataset = data_processing_utils.format_and_batch(dataset, config, batch, padding, columns, numbering)
    workers, buffer = config.grain_worker_count, config.grain_per_worker_buffer_size
    return data_processing_utils.apply_multiprocessing_and_prefetch(dataset, config, workers, buffer)


def first_number(config: SimpleNamespace) -> int:
    """No record has the number of a token that MaxText leaves out of the loss."""
    return int(config.vocab_size)


def main(plan_path: Path, bad: BadStep) -> int:
    plan = load(plan_path)
    try:
        path = write(plan, bad, records_of(plan, bad.step, bad.spoiled))
    except NotTraceableError as error:
        print(f"slipway: what step {bad.step} read is not known: {error}", flush=True)
        return 0
    print(f"slipway: what step {bad.step} read is in {path}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), BadStep(**json.loads(sys.argv[2]))))
