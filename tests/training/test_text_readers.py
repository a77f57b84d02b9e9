"""The global batch of a run, whatever hosts read it: against MaxText's own iterators of those that began it."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from maxtext.input_pipeline.grain_data_processing import make_grain_eval_iterator, make_grain_train_iterator

from tests.training.tiny import TINY, prepared_text
from training.batch_records import configuration
from training.maxtext_config import HostFiles, maxtext_arguments
from training.plan import Plan
from training.reader_shares import Share, refusal, share
from training.run_spec import RunSpec
from training.text_readers import as_by

ROWS = 4


@pytest.mark.parametrize(
    ("readers", "hosts", "shares"),
    [
        (4, 4, [Share(range(host, host + 1)) for host in range(4)]),
        (4, 2, [Share(range(2)), Share(range(2, 4))]),
        (4, 1, [Share(range(4))]),
        (2, 4, [Share(range(1), 0, 2), Share(range(1), 1, 2), Share(range(1, 2), 0, 2), Share(range(1, 2), 1, 2)]),
    ],
)
def test_hosts_have_equal_parts_in_the_order_of_the_global_batch(readers: int, hosts: int, shares: list[Share]) -> None:
    assert [share(readers, hosts, host) for host in range(hosts)] == shares
    rows = np.arange(8)
    by_reader = rows.reshape(readers, -1)
    read = [own.own(np.concatenate([by_reader[reader] for reader in own.readers])) for own in shares]
    assert np.concatenate(read).tolist() == rows.tolist()


@pytest.mark.parametrize(
    ("readers", "hosts", "rows", "said"),
    [
        (4, 3, 12, "the run began with 4 hosts, each of which read a share of the text; 3 cannot have equal parts"),
        (4, 2, 2, "2 rows a step are not the same number for each: raise per_device_batch_size"),
        (2, 4, 2, "2 rows a step are not the same number for each: raise per_device_batch_size"),
        (4, 2, 4, None),
        (2, 4, 4, None),
    ],
)
def test_hosts_that_cannot_have_equal_parts_are_refused(readers: int, hosts: int, rows: int, said: str | None) -> None:
    found = refusal(readers, hosts, rows)
    assert found is None if said is None else found is not None and said in found


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Of a run of four rows a step."""
    root = tmp_path_factory.mktemp("data")
    data = prepared_text(root, root / "prepared")
    spec = RunSpec("test", "run", "cpu", 1, 2, 2, 40, str(root / "out"), data, TINY | {"eval_interval": 10})
    arguments = maxtext_arguments(spec, HostFiles("", ""), 1)
    record = str(Path(root, "host-0.jsonl"))
    plan = Plan(0, 2, "", 2, 4, 40, spec.tokens_per_step, "", "", record, 1, 1, 1, 0, 0.0, data.directory, arguments)
    config = configuration(plan)
    config.global_batch_size_to_load = config.global_batch_size_to_load_eval = ROWS
    config.generate_padding_batch_train = False
    return config


MESH = Mesh(np.array(jax.devices()[:1]), ("data",))


def read(iterator: Any, steps: int) -> list[list[list[int]]]:
    """Of each step, each row's tokens and to which record of it each belongs."""
    batches = itertools.islice(iterator, steps)
    return [np.concatenate([batch["inputs"], batch["inputs_segmentation"]], axis=1).tolist() for batch in batches]


def test_one_host_reads_what_two_have_read(config: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    by_host: list[list[list[list[int]]]] = []
    for host in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(jax, "process_index", lambda host=host: host)
            patch.setattr(jax, "process_count", lambda: 2)
            iterator: Any = make_grain_train_iterator(config, MESH, [0, 1])  # pyright: ignore[reportArgumentType]
        by_host.append(read(iterator.local_iterator, 25))
    together = as_by(2, make_grain_train_iterator, "train")(config, MESH, [0])
    assert read(together.local_iterator, 25) == [one + other for one, other in zip(*by_host, strict=True)]
    assert by_host[0] != by_host[1]


def test_text_is_read_to_its_end_by_every_reader(config: SimpleNamespace) -> None:
    """Held-out text falls unevenly on readers; those at their end have empty rows."""
    iterator = as_by(2, make_grain_eval_iterator, "eval")(config, MESH, [0])
    tokens = sum(int((np.array(batch["inputs_segmentation"]) > 0).sum()) for batch in iterator.local_iterator)
    alone: Any = make_grain_eval_iterator(config, MESH, [0])  # pyright: ignore[reportArgumentType]
    assert tokens == sum(int((batch["inputs_segmentation"] > 0).sum()) for batch in alone.local_iterator) > 0
