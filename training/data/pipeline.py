"""The stages of a preparation: read, shuffle, train a tokenizer, count tokens, publish.

Owns their order and what each leaves in `.partial/`, so that a killed preparation continues where it was and yields the
same bytes. Which process does what changes nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from training.data import vocabulary
from training.data.identity import (
    MANIFEST,
    NO_TOKENIZER,
    TOKENIZER,
    TRAIN_TOKENIZER,
    VERSION,
    DataError,
    FileEntry,
    Manifest,
    SourceEntry,
    Split,
    TokenizerEntry,
)
from training.data.partial import PARTIAL, read_json, sync_directory, write_atomically, write_json
from training.data.reading import Corpus, Reading, first_threshold, read_corpus
from training.data.shards import shard_count, write_shard
from training.data.shuffle import bucket_records
from training.data.vocabulary import Encoding
from training.data.workers import PreparationProgress, pool, run_all


@dataclass(frozen=True)
class ShardJob:
    """Write one shard from a range of buckets over all runs; `text_bytes` is what it will hold, roughly."""

    path: Path
    heldout: bool
    first_bucket: int
    end_bucket: int
    buckets: int
    runs: tuple[Path, ...]
    text_bytes: int


@dataclass(frozen=True)
class ShardResult:
    file: FileEntry
    records: int
    text_bytes: int


@dataclass(frozen=True)
class CountJob:
    shard: Path
    result: Path
    encoding: Encoding
    text_bytes: int


def prepare(corpus: Corpus, directory: Path, processes: int) -> Manifest:
    """Do what is not done yet, publish and return the manifest. The caller holds the lock on `directory`."""
    work = directory / PARTIAL
    if corpus.options.tokenizer not in (TRAIN_TOKENIZER, NO_TOKENIZER):
        vocabulary.load(_encoding(corpus, Path(corpus.options.tokenizer).expanduser()))  # refused before hours of work
    threshold = _started(corpus, directory, work)
    with pool(processes) as executor:
        reading = read_corpus(corpus, work, threshold, executor, processes)
        while isinstance(reading, int):
            threshold = _restarted(corpus, work, reading)
            reading = read_corpus(corpus, work, threshold, executor, processes)
        _check_unchanged(corpus, work)
        train = _write_split(corpus, reading, work, False, executor, processes)
        heldout = _write_split(corpus, reading, work, True, executor, processes)
        tokenizer = _tokenizer(corpus, directory, train, executor, processes)
        counts = _counts(corpus, directory, (*train, *heldout), executor, processes) if tokenizer else {}
    manifest = Manifest(
        version=VERSION,
        content=corpus.content,
        seed=corpus.options.seed,
        options=corpus.canonical,
        sources=tuple(
            SourceEntry(file.name, digest, size, sum(found))
            for file, digest, size, found in zip(
                corpus.files, corpus.digests, corpus.sizes, reading.documents, strict=True
            )
        ),
        train=_split(reading.train_documents, train, counts),
        heldout=_split(reading.heldout_documents, heldout, counts),
        tokenizer=tokenizer,
    )
    _publish(manifest, directory)
    return manifest


def _started(corpus: Corpus, directory: Path, work: Path) -> int:
    """The held-out threshold of the unfinished work for this corpus, or of new work after clearing any other's."""
    plan = read_json(work / "plan.json")
    if plan and plan["content"] == corpus.content:
        for left in work.glob("*.tmp"):
            left.unlink()
        return int(plan["threshold"])
    strangers = sorted(chain(directory.glob("*.array_record"), directory.glob(TOKENIZER)))
    if strangers:
        raise DataError(
            f"{directory} holds {strangers[0].name} but no manifest of it: choose another --out, or empty it"
        )
    return _restarted(corpus, work, first_threshold(corpus))


def _restarted(corpus: Corpus, work: Path, threshold: int) -> int:
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    write_json(work / "plan.json", {"content": corpus.content, "threshold": threshold})
    return threshold


def _check_unchanged(corpus: Corpus, work: Path) -> None:
    try:
        corpus.check_unchanged()
    except DataError:
        shutil.rmtree(work)
        raise


def _write_split(
    corpus: Corpus, reading: Reading, work: Path, heldout: bool, executor: ProcessPoolExecutor, processes: int
) -> tuple[ShardResult, ...]:
    """Shards of one split. Consecutive buckets make a shard, so the order of records is one across shards."""
    name, text_bytes = ("heldout", reading.heldout_bytes) if heldout else ("train", reading.train_bytes)
    buckets, shards = corpus.buckets, shard_count(text_bytes, corpus.buckets)
    jobs = [
        ShardJob(
            path=work / f"{name}-{shard:05d}-of-{shards:05d}.array_record",
            heldout=heldout,
            first_bucket=shard * buckets // shards,
            end_bucket=(shard + 1) * buckets // shards,
            buckets=buckets,
            runs=reading.runs,
            text_bytes=text_bytes // shards,
        )
        for shard in range(shards)
    ]
    with PreparationProgress(f"shuffling {name}", text_bytes) as progress:
        undone = [job for job in jobs if not _result_path(job.path).exists()]
        progress.skip((len(jobs) - len(undone)) * (text_bytes // shards))
        for job, _ in run_all(executor, write_split_shard, undone, progress, processes):
            progress.advance(job.text_bytes)
    return tuple(_shard_result(job.path) for job in jobs)


def _result_path(shard: Path) -> Path:
    return shard.with_suffix(".json")


def _shard_result(path: Path) -> ShardResult:
    found = read_json(_result_path(path))
    return ShardResult(FileEntry(**found["file"]), found["records"], found["text_bytes"])


def write_split_shard(job: ShardJob) -> None:
    """One shard, in a worker; a bucket at a time is in memory."""
    texts = chain.from_iterable(
        bucket_records(job.runs, heldout=job.heldout, bucket=bucket, buckets=job.buckets)
        for bucket in range(job.first_bucket, job.end_bucket)
    )
    entry, records, text_bytes = write_shard(job.path, texts)
    write_json(_result_path(job.path), dataclasses.asdict(ShardResult(entry, records, text_bytes)))


def _tokenizer(
    corpus: Corpus, directory: Path, train: Sequence[ShardResult], executor: ProcessPoolExecutor, processes: int
) -> TokenizerEntry | None:
    choice = corpus.options.tokenizer
    if choice == NO_TOKENIZER:
        return None
    if not _at(directory, TOKENIZER).exists():
        model = directory / PARTIAL / TOKENIZER
        if choice == TRAIN_TOKENIZER:
            shards = [_at(directory, result.file.name) for result in train]
            job = partial(vocabulary.train, shards, corpus.options.vocab_size)
            with PreparationProgress(f"training a tokenizer of {corpus.options.vocab_size} pieces", 0) as progress:
                list(run_all(executor, job, [model], progress, processes))
        else:
            write_atomically(model, Path(choice).expanduser().read_bytes())
    model = _at(directory, TOKENIZER)
    content = model.read_bytes()
    processor = vocabulary.load(_encoding(corpus, model))
    return TokenizerEntry(
        file=FileEntry(TOKENIZER, hashlib.sha256(content).hexdigest(), len(content)),
        vocab_size=processor.vocab_size(),
        pad_id=processor.pad_id(),
        eos_id=processor.eos_id(),
        bos_id=processor.bos_id(),
        unk_id=processor.unk_id(),
    )


def _encoding(corpus: Corpus, model: Path) -> Encoding:
    return Encoding(model, corpus.options.add_bos, corpus.options.add_eos)


def _at(directory: Path, name: str) -> Path:
    """A finished file: in the directory once published, before that in its `.partial/`."""
    published = directory / name
    return published if published.exists() else directory / PARTIAL / name


def _counts(
    corpus: Corpus, directory: Path, shards: Sequence[ShardResult], executor: ProcessPoolExecutor, processes: int
) -> dict[str, vocabulary.TokenCounts]:
    """Token counts by shard name."""
    encoding = _encoding(corpus, _at(directory, TOKENIZER))
    jobs = [
        CountJob(
            shard=_at(directory, shard.file.name),
            result=directory / PARTIAL / f"count-{shard.file.name}.json",
            encoding=encoding,
            text_bytes=shard.text_bytes,
        )
        for shard in shards
    ]
    with PreparationProgress("counting tokens", sum(job.text_bytes for job in jobs)) as progress:
        undone = [job for job in jobs if not job.result.exists()]
        progress.skip(sum(job.text_bytes for job in jobs) - sum(job.text_bytes for job in undone))
        for job, _ in run_all(executor, count_shard, undone, progress, processes):
            progress.advance(job.text_bytes)
    return {job.shard.name: _token_counts(job.result) for job in jobs}


def count_shard(job: CountJob) -> None:
    """Tokens of one shard, in a worker."""
    counts = vocabulary.count(job.shard, job.encoding)
    write_json(job.result, [counts.tokens, counts.longest_record, sorted(counts.by_id.items())])


def _token_counts(path: Path) -> vocabulary.TokenCounts:
    tokens, longest, by_id = read_json(path)
    return vocabulary.TokenCounts(tokens, longest, dict(by_id))


def _split(documents: int, shards: Sequence[ShardResult], counts: dict[str, vocabulary.TokenCounts]) -> Split:
    by_id: Counter[int] = Counter()
    for shard in shards if counts else ():
        by_id.update(counts[shard.file.name].by_id)
    return Split(
        documents=documents,
        records=sum(shard.records for shard in shards),
        bytes=sum(shard.text_bytes for shard in shards),
        tokens=by_id.total() if counts else None,
        longest_record_tokens=max(counts[shard.file.name].longest_record for shard in shards) if counts else None,
        unigram_entropy_nats=vocabulary.entropy_nats(by_id) if counts else None,
        files=tuple(shard.file for shard in shards),
    )


def _publish(manifest: Manifest, directory: Path) -> None:
    """Move what is finished into place, then write the manifest, then forget the work."""
    files = [*manifest.train.files, *manifest.heldout.files]
    if manifest.tokenizer:
        files.append(manifest.tokenizer.file)
    for file in files:
        finished = _at(directory, file.name)
        if finished.parent != directory:
            finished.replace(directory / file.name)
    sync_directory(directory)
    write_atomically(directory / MANIFEST, manifest.to_json().encode())
    sync_directory(directory)
    shutil.rmtree(directory / PARTIAL)
