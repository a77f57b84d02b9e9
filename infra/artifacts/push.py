"""Uploads a set of artifacts from a directory to a store.

Owns order and parallelism: big files first, and what makes the set visible last. Refuses to own what a set consists of.
Safe to interrupt at any point and to run again: a key that is there is whole, so it is not sent again.

Not google.cloud.storage.transfer_manager: upload_many leaves its pool only when every upload has ended, so Ctrl-C waits
for gigabytes, and after a refusal it goes on with all the others. Threads of concurrent.futures are joined at exit too.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from infra.artifacts.store import LocalStore, Store

WORKERS = 8


@dataclass(frozen=True)
class Pushed:
    """What a push has done so far; sizes in bytes."""

    uploaded: int = 0
    uploaded_bytes: int = 0
    present: int = 0
    present_bytes: int = 0

    def plus(self, size: int, uploaded: bool) -> Pushed:
        if uploaded:
            return Pushed(self.uploaded + 1, self.uploaded_bytes + size, self.present, self.present_bytes)
        return Pushed(self.uploaded, self.uploaded_bytes, self.present + 1, self.present_bytes + size)


# Called in the caller's thread after each object: its key, and what is done so far.
Progress = Callable[[str, Pushed], None]


def push(
    source: LocalStore,
    target: Store,
    keys: Iterable[str],
    last: Sequence[str] = (),
    progress: Progress = lambda key, done: None,
) -> Pushed:
    """Upload what `target` lacks: `keys` in parallel, then `last` one by one in their order.

    `last` names what makes the set visible, so that a set that is visible is whole. The first StoreError ends it, after
    the uploads that are under way. Ctrl-C ends it at once.
    """
    # a key that the source lacks stops here, before anything is uploaded
    sizes = {key: source.size(key) for key in dict.fromkeys((*keys, *last))}
    first = sorted(sizes.keys() - set(last), key=lambda key: (-sizes[key], key))
    one_by_one = ((key, target.put(key, source.path(key))) for key in last)
    done = Pushed()
    for key, uploaded in itertools.chain(_in_parallel(source, target, first), one_by_one):
        done = done.plus(sizes[key], uploaded)
        progress(key, done)
    return done


def _in_parallel(source: LocalStore, target: Store, keys: Sequence[str]) -> Iterable[tuple[str, bool]]:
    """Each key as its upload ends, and whether it was sent. Daemon threads: an interrupted process waits for none."""
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    ended: queue.SimpleQueue[tuple[str, bool | BaseException]] = queue.SimpleQueue()
    stop = threading.Event()
    for key in keys:
        waiting.put(key)

    def work() -> None:
        while not stop.is_set():
            try:
                key = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                ended.put((key, target.put(key, source.path(key))))
            except BaseException as error:  # noqa: BLE001 - it is raised again in the caller's thread
                ended.put((key, error))
                return

    workers = [threading.Thread(target=work, daemon=True) for _ in range(min(WORKERS, len(keys)))]
    for worker in workers:
        worker.start()
    try:
        for _ in keys:
            key, outcome = ended.get()
            if isinstance(outcome, BaseException):
                stop.set()
                for worker in workers:
                    worker.join()
                raise outcome
            yield key, outcome
    finally:
        stop.set()
