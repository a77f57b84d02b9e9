"""The first stage: sources to sorted runs on disk, and which documents are held out.

Owns the held-out decision: a document goes by its own hash, so all its records go together and adding a source moves no
other document. Each task leaves its runs and then its result, so a killed preparation repeats only unfinished tasks.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from training.data import documents
from training.data.documents import Part
from training.data.identity import DataError, PrepareOptions, SourceFile
from training.data.partial import read_json, write_json
from training.data.shuffle import Keys, RunWriter, bucket_count, run_path
from training.data.workers import Job, Workers

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
    """All runs, documents of each source, and documents and bytes of text per split."""

    runs: tuple[Path, ...]
    documents: tuple[int, ...]
    train_documents: int
    heldout_documents: int
    train_bytes: int
    heldout_bytes: int


def first_threshold(corpus: Corpus) -> int:
    """Document keys below this are held out. Where documents are files, at least one is, known without reading."""
    threshold = int(corpus.options.heldout_fraction * KEYS)
    if any(file.is_json for file in corpus.files):
        return threshold
    keys = Keys(corpus.options.seed)
    smallest = [keys.of_document(file.name, 0) for file, size in zip(corpus.files, corpus.sizes, strict=True) if size]
    return max(threshold, min(smallest) + 1) if smallest else threshold


def read_corpus(corpus: Corpus, directory: Path, threshold: int, workers: Workers) -> Reading | int:
    """Read everything into runs in `directory`; or, when no document is held out, the threshold that holds out one."""
    jobs = _jobs(corpus, directory, threshold)
    workers.run("reading", jobs)
    results = [ReadResult(**read_json(job.result)) for job in jobs]
    counts = [[0, 0] for _ in corpus.files]
    for result in results:
        for source, train, heldout in result.documents:
            counts[source][0] += train
            counts[source][1] += heldout
    train_documents, heldout_documents = sum(train for train, _ in counts), sum(heldout for _, heldout in counts)
    if train_documents + heldout_documents == 0:
        raise DataError(f"no text in the input: {len(corpus.files)} files, every one empty")
    if heldout_documents == 0:
        return min(result.smallest for result in results) + 1
    if train_documents == 0:
        raise DataError(_nothing_left(heldout_documents))
    return Reading(
        runs=tuple(
            run_path(job.result.with_suffix(""), run)
            for job, result in zip(jobs, results, strict=True)
            for run in range(result.runs)
        ),
        documents=tuple(train + heldout for train, heldout in counts),
        train_documents=train_documents,
        heldout_documents=heldout_documents,
        train_bytes=sum(result.train_bytes for result in results),
        heldout_bytes=sum(result.heldout_bytes for result in results),
    )


def _nothing_left(documents: int) -> str:
    if documents == 1:
        return "the input is one document, and the held-out split takes one: give at least two files or JSON lines"
    return f"all {documents} documents of the input would be held out: give a smaller --heldout-fraction"


def _jobs(corpus: Corpus, directory: Path, threshold: int) -> list[Job]:
    jobs: list[Job] = []
    buckets = corpus.buckets
    for number, parts in enumerate(documents.tasks(corpus.files, corpus.sizes, corpus.options.record_bytes)):
        prefix = directory / f"read-{number:05d}"
        sources = {part.source: corpus.files[part.source] for part in parts}
        work = partial(_read, prefix, parts, sources, corpus.options, threshold, buckets)
        size = sum((part.end or corpus.sizes[part.source]) - part.start for part in parts)
        jobs.append(Job(work, prefix.with_suffix(".json"), size))
    return jobs


def _read(
    prefix: Path,
    parts: list[Part],
    sources: dict[int, SourceFile],
    options: PrepareOptions,
    threshold: int,
    buckets: int,
) -> None:
    """Parts of the files that they name by index, to runs `<prefix>-<n>.run`; in a worker."""
    keys = Keys(options.seed)
    writer = RunWriter(prefix, buckets)
    counts: dict[int, list[int]] = {}
    split_bytes = [0, 0]
    smallest = KEYS
    for part in parts:
        source = sources[part.source]
        document, document_key = -1, KEYS
        for at, start, text in documents.records(source, part, options.record_bytes, options.text_key):
            if at != document:
                document, document_key = at, keys.of_document(source.name, at)
            heldout = document_key < threshold
            if start == 0:
                counts.setdefault(part.source, [0, 0])[heldout] += 1
                smallest = min(smallest, document_key)
            split_bytes[heldout] += len(text)
            writer.add(heldout=heldout, key=keys.of_record(source.name, at, start), text=text)
    writer.flush()
    found = [(source, train, heldout) for source, (train, heldout) in sorted(counts.items())]
    result = ReadResult(writer.runs, found, split_bytes[0], split_bytes[1], smallest)
    write_json(prefix.with_suffix(".json"), dataclasses.asdict(result))
