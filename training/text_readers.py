"""A run's text is read by as many readers as the run had hosts when it began, whatever hosts train it now.

A reader cuts its share of the records into rows, and its position is in each checkpoint: with another number of them
another text would follow. So half of the hosts have two readers each, twice as many share one, and the global batch is
the same, row by row. Owns how MaxText comes to read so. Refuses to own which rows are a host's (reader_shares.py) and
how a reader reads: MaxText's input pipeline does, which is told that it is on one of so many hosts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from training.reader_shares import Share, share


def keep(readers: int) -> None:
    """From now on MaxText reads as on so many hosts, which `refusal` lets pass. Call before it makes its iterators."""
    from maxtext.common import grain_utility  # here, for it takes seconds and few starts need it
    from maxtext.input_pipeline import input_pipeline_interface as interface

    interface.make_grain_train_iterator = as_by(readers, interface.make_grain_train_iterator, "train")
    interface.make_grain_eval_iterator = as_by(readers, interface.make_grain_eval_iterator, "eval")
    for_save, for_restore = grain_utility.for_save, grain_utility.for_restore

    def save(step: int, iterator: Any, factor: int) -> Any:
        rows = getattr(iterator, "local_iterator", None)
        return rows.to_save() if isinstance(rows, _Rows) else for_save(step, iterator, factor)

    def restore(manager: Any, step: int, iterator: Any, factor: int) -> Any:
        rows = getattr(iterator, "local_iterator", None)
        return rows.to_restore() if isinstance(rows, _Rows) else for_restore(manager, step, iterator, factor)

    grain_utility.for_save, grain_utility.for_restore = save, restore


def as_by(readers: int, make: Callable[..., Any], split: str) -> Callable[..., Any]:
    """In the place of MaxText's `make`, which makes the iterator of this host over a split of the data."""

    def make_iterator(config: Any, mesh: Any, process_indices: Sequence[int]) -> Any:
        from maxtext.input_pipeline.multihost_dataloading import MultiHostDataLoadIterator

        own = share(readers, len(process_indices), process_indices.index(jax.process_index()))
        each: list[Any] = []
        for reader in own.readers:
            with _on_host(reader, readers):
                each.append(make(config, mesh, list(range(readers))))
        padded = bool(getattr(config, f"generate_padding_batch_{split}"))
        return MultiHostDataLoadIterator(_Readers(each, own, readers, padded), mesh, padded)

    return make_iterator


@contextlib.contextmanager
def _on_host(index: int, count: int) -> Iterator[None]:
    """MaxText's input pipeline asks JAX on which of how many hosts it is, while it is made."""
    from maxtext.input_pipeline import data_processing_utils, grain_data_processing

    modules: tuple[Any, ...] = (data_processing_utils, grain_data_processing)
    for module in modules:
        module.jax = _Jax(index, count)
    try:
        yield
    finally:
        for module in modules:
            module.jax = jax


class _Jax:
    """JAX, on another host."""

    def __init__(self, index: int, count: int) -> None:
        self.process_index: Callable[[], int] = lambda: index
        self.process_count: Callable[[], int] = lambda: count

    def __getattr__(self, name: str) -> Any:
        return getattr(jax, name)


@dataclass
class _Readers:
    """Those of a host, as MaxText's iterators; iterated like one of MaxText's loaders, each time from the beginning."""

    each: list[Any]
    own: Share
    count: int
    padded: bool

    def __iter__(self) -> _Rows:
        for reader in self.each:
            reader.reset()
        return _Rows([reader.local_iterator for reader in self.each], self.own, self.count, self.padded)


@dataclass
class _Rows:
    """A host's rows of each batch. Where `padded`, a reader that is at its end has empty rows until all of them are."""

    readers: list[Any]
    own: Share
    count: int
    padded: bool

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> Any:
        read = [next(reader, None) for reader in self.readers]
        there = [batch for batch in read if batch is not None]
        if not there or (len(there) < len(read) and not self.padded):
            raise StopIteration
        batches = [jax.tree.map(np.zeros_like, there[0]) if batch is None else batch for batch in read]
        return jax.tree.map(lambda *parts: self.own.own(np.concatenate(parts)), *batches)

    def to_save(self) -> Any:
        """The positions of the readers, under their own numbers; of one that several hosts have the first writes it."""
        from maxtext.common.grain_utility import GrainCheckpointable

        numbered = zip(self.readers, self.own.readers, strict=True)
        return GrainCheckpointable([(reader, number, self.count) for reader, number in numbered if self.own.part == 0])

    def to_restore(self) -> Any:
        from maxtext.common.grain_utility import GrainCheckpointable

        numbers = list(self.own.readers)
        return GrainCheckpointable(self.readers, restore_process_index=numbers, restore_process_count=self.count)
