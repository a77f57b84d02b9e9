"""The first stage: sources to sorted runs on disk, and which documents are held out.

Owns the held-out decision: a document goes by its own hash, so all its records go together and adding a source moves no
other document. Each task leaves its runs and then its result, so a killed preparation repeats only unfinished tasks.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from training.data import documents
from training.data.documents import Part
from training.data.identity import DataError, PrepareOptions, SourceFile
from training.data.partial import read_json, write_json
from training.data.shuffle import Keys, RunWriter, bucket_count, run_path
from training.data.workers import PreparationProgress, run_all

KEYS = 2**64  # document keys are below this
_GZIP_RATIO = 4  # text per compressed byte, to choose the number of buckets; nothing breaks where it is wrong


@dataclass(frozen=True)
class Corpus:
    """What is prepared: sources in order, with sizes in bytes, modification times and hashes when they were hashed."""

    files: tuple[SourceFile, ...]
    sizes: tuple[int, ...]
    times_ns: tuple[int, ...]
    digests: tuple[str, ...]
    options: PrepareOptions
    canonical: dict[str, str | int | float | bool | None]
    content: str

    @property
    def buckets(self) -> int:
        sizes = zip(self.files, self.sizes, strict=True)
        return bucket_count(sum(size * _GZIP_RATIO if file.is_gzip else size for file, size in sizes))

    def check_unchanged(self) -> None:
        """Raises DataError naming the first source that is no longer what was hashed."""
        for file, size, time_ns in zip(self.files, self.sizes, self.times_ns, strict=True):
            now = file.path.stat()
            if (now.st_size, now.st_mtime_ns) != (size, time_ns):
                raise DataError(f"{file.path} changed while it was being prepared: run again when it is finished")


@dataclass(frozen=True)
class ReadJob:
    """Read some parts into runs `<prefix>-<n>.run`; `sources` are the files that the parts name by index."""

    prefix: Path
    parts: tuple[Part, ...]
    sources: dict[int, SourceFile]
    source_bytes: int
    options: PrepareOptions
    threshold: int
    buckets: int

    @property
    def result(self) -> Path:
        return self.prefix.with_suffix(".json")


@dataclass(frozen=True)
class ReadResult:
    """`documents` are (source, training, held-out) counts; `smallest` is the least document key seen."""

    runs: int
    documents: list[tuple[int, int, int]]
    train_bytes: int
    heldout_bytes: int
    smallest: int


@dataclass(frozen=True)
class Reading:
    """All runs, document counts by source as [training, held-out], and bytes of text per split."""

    runs: tuple[Path, ...]
    documents: tuple[tuple[int, int], ...]
    train_bytes: int
    heldout_bytes: int

    @property
    def train_documents(self) -> int:
        return sum(train for train, _ in self.documents)

    @property
    def heldout_documents(self) -> int:
        return sum(heldout for _, heldout in self.documents)


def first_threshold(corpus: Corpus) -> int:
    """Document keys below this are held out. Where documents are files, at least one is, known without reading."""
    threshold = int(corpus.options.heldout_fraction * KEYS)
    if any(file.is_json for file in corpus.files):
        return threshold
    keys = Keys(corpus.options.seed)
    smallest = [keys.of_document(file.name, 0) for file, size in zip(corpus.files, corpus.sizes, strict=True) if size]
    return max(threshold, min(smallest) + 1) if smallest else threshold


def read_corpus(
    corpus: Corpus, directory: Path, threshold: int, executor: ProcessPoolExecutor, processes: int
) -> Reading | int:
    """Read everything into runs in `directory`; or, when no document is held out, the threshold that holds out one."""
    jobs = _jobs(corpus, directory, threshold)
    with PreparationProgress("reading", sum(job.source_bytes for job in jobs)) as progress:
        undone = [job for job in jobs if not job.result.exists()]
        progress.skip(sum(job.source_bytes for job in jobs) - sum(job.source_bytes for job in undone))
        for job, _ in run_all(executor, read, undone, progress, processes):
            progress.advance(job.source_bytes)
    results = [(job, ReadResult(**read_json(job.result))) for job in jobs]
    reading = _merged(corpus, results)
    if reading.train_documents + reading.heldout_documents == 0:
        raise DataError(f"no text in the input: {len(corpus.files)} files, every one empty")
    if reading.heldout_documents == 0:
        return min(result.smallest for _, result in results) + 1
    if reading.train_documents == 0:
        raise DataError(_nothing_left(reading.heldout_documents))
    return reading


def _nothing_left(documents: int) -> str:
    if documents == 1:
        return "the input is one document, and the held-out split takes one: give at least two files or JSON lines"
    return f"all {documents} documents of the input would be held out: give a smaller --heldout-fraction"


def _jobs(corpus: Corpus, directory: Path, threshold: int) -> list[ReadJob]:
    return [
        ReadJob(
            prefix=directory / f"read-{number:05d}",
            parts=tuple(parts),
            sources={part.source: corpus.files[part.source] for part in parts},
            source_bytes=sum((part.end or corpus.sizes[part.source]) - part.start for part in parts),
            options=corpus.options,
            threshold=threshold,
            buckets=corpus.buckets,
        )
        for number, parts in enumerate(documents.tasks(corpus.files, corpus.sizes, corpus.options.record_bytes))
    ]


def _merged(corpus: Corpus, results: Sequence[tuple[ReadJob, ReadResult]]) -> Reading:
    counts = [[0, 0] for _ in corpus.files]
    for _, result in results:
        for source, train, heldout in result.documents:
            counts[source][0] += train
            counts[source][1] += heldout
    return Reading(
        runs=tuple(run_path(job.prefix, run) for job, result in results for run in range(result.runs)),
        documents=tuple((train, heldout) for train, heldout in counts),
        train_bytes=sum(result.train_bytes for _, result in results),
        heldout_bytes=sum(result.heldout_bytes for _, result in results),
    )


def read(job: ReadJob) -> None:
    """One task, in a worker."""
    keys = Keys(job.options.seed)
    writer = RunWriter(job.prefix, job.buckets)
    counts: dict[int, list[int]] = {}
    split_bytes = [0, 0]
    smallest = KEYS
    for part in job.parts:
        source = job.sources[part.source]
        document, document_key = -1, KEYS
        for at, start, text in documents.records(source, part, job.options.record_bytes, job.options.text_key):
            if at != document:
                document, document_key = at, keys.of_document(source.name, at)
            heldout = document_key < job.threshold
            if start == 0:
                counts.setdefault(part.source, [0, 0])[heldout] += 1
                smallest = min(smallest, document_key)
            split_bytes[heldout] += len(text)
            writer.add(heldout=heldout, key=keys.of_record(source.name, at, start), text=text)
    writer.flush()
    result = ReadResult(
        runs=writer.runs,
        documents=[(source, train, heldout) for source, (train, heldout) in sorted(counts.items())],
        train_bytes=split_bytes[0],
        heldout_bytes=split_bytes[1],
        smallest=smallest,
    )
    write_json(job.result, dataclasses.asdict(result))
