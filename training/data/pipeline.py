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
from training.data.shards import Shard, shard_count, write_shard
from training.data.shuffle import bucket_records
from training.data.vocabulary import Encoding
from training.data.workers import Job, Workers, pool


def prepare(corpus: Corpus, directory: Path, processes: int) -> Manifest:
    """Do what is not done yet, publish and return the manifest. The caller holds the lock on `directory`."""
    work = directory / PARTIAL
    if corpus.options.tokenizer not in (TRAIN_TOKENIZER, NO_TOKENIZER):
        vocabulary.load(_encoding(corpus, Path(corpus.options.tokenizer).expanduser()))  # refused before hours of work
    threshold = _started(corpus, directory, work)
    with pool(processes) as workers:
        while isinstance(reading := read_corpus(corpus, work, threshold, workers), int):
            threshold = _restarted(corpus, work, reading)
        _check_unchanged(corpus, work)
        train = _write_split(corpus, reading, work, False, workers)
        heldout = _write_split(corpus, reading, work, True, workers)
        tokenizer = _tokenizer(corpus, directory, train, workers)
        counts = _counts(corpus, directory, (*train, *heldout), workers) if tokenizer else {}
    manifest = Manifest(
        version=VERSION,
        content=corpus.content,
        seed=corpus.options.seed,
        options=corpus.canonical,
        sources=tuple(
            SourceEntry(file.name, digest, size, found)
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
    """Raises DataError naming the first source that is no longer what was hashed, and forgets what was read of it."""
    for file, size, time_ns in zip(corpus.files, corpus.sizes, corpus.times_ns, strict=True):
        now = file.path.stat()
        if (now.st_size, now.st_mtime_ns) != (size, time_ns):
            shutil.rmtree(work)
            raise DataError(f"{file.path} changed while it was being prepared: run again when it is finished")


def _write_split(corpus: Corpus, reading: Reading, work: Path, heldout: bool, workers: Workers) -> tuple[Shard, ...]:
    """Shards of one split. Consecutive buckets make a shard, so the order of records is one across shards."""
    name, text_bytes = ("heldout", reading.heldout_bytes) if heldout else ("train", reading.train_bytes)
    buckets, shards = corpus.buckets, shard_count(text_bytes, corpus.buckets)
    jobs: list[Job] = []
    for shard in range(shards):
        path = work / f"{name}-{shard:05d}-of-{shards:05d}.array_record"
        own = range(shard * buckets // shards, (shard + 1) * buckets // shards)
        job = partial(_write_shard, path, reading.runs, heldout, own, buckets)
        jobs.append(Job(job, path.with_suffix(".json"), text_bytes // shards))
    workers.run(f"shuffling {name}", jobs)
    found = [read_json(job.result) for job in jobs]
    return tuple(Shard(FileEntry(**one["file"]), one["records"], one["text_bytes"]) for one in found)


def _write_shard(path: Path, runs: tuple[Path, ...], heldout: bool, own: range, buckets: int) -> None:
    """One shard from its own buckets over all runs, in a worker; a bucket at a time is in memory."""
    texts = chain.from_iterable(bucket_records(runs, heldout=heldout, bucket=bucket, buckets=buckets) for bucket in own)
    write_json(path.with_suffix(".json"), dataclasses.asdict(write_shard(path, texts)))


def _tokenizer(corpus: Corpus, directory: Path, train: Sequence[Shard], workers: Workers) -> TokenizerEntry | None:
    choice = corpus.options.tokenizer
    if choice == NO_TOKENIZER:
        return None
    if not _at(directory, TOKENIZER).exists():
        model = directory / PARTIAL / TOKENIZER
        if choice == TRAIN_TOKENIZER:
            shards = [_at(directory, shard.file.name) for shard in train]
            pieces = corpus.options.vocab_size
            job = Job(partial(vocabulary.train, shards, pieces, model), model, 0)
            workers.run(f"training a tokenizer of {pieces} pieces", [job])
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
    corpus: Corpus, directory: Path, shards: Sequence[Shard], workers: Workers
) -> dict[str, vocabulary.TokenCounts]:
    """Token counts by shard name."""
    encoding = _encoding(corpus, _at(directory, TOKENIZER))
    jobs: dict[str, Job] = {}
    for shard in shards:
        name = shard.file.name
        result = directory / PARTIAL / f"count-{name}.json"
        jobs[name] = Job(partial(_count, _at(directory, name), encoding, result), result, shard.text_bytes)
    workers.run("counting tokens", [*jobs.values()])
    return {name: _token_counts(job.result) for name, job in jobs.items()}


def _count(shard: Path, encoding: Encoding, result: Path) -> None:
    """Tokens of one shard, in a worker."""
    counts = vocabulary.count(shard, encoding)
    write_json(result, [counts.tokens, counts.longest_record, sorted(counts.by_id.items())])


def _token_counts(result: Path) -> vocabulary.TokenCounts:
    tokens, longest, by_id = read_json(result)
    return vocabulary.TokenCounts(tokens, longest, dict(by_id))


def _split(documents: int, shards: Sequence[Shard], counts: dict[str, vocabulary.TokenCounts]) -> Split:
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
    for file in manifest.files:
        finished = _at(directory, file.name)
        if finished.parent != directory:
            finished.replace(directory / file.name)
    sync_directory(directory)
    write_atomically(directory / MANIFEST, manifest.to_json().encode())
    sync_directory(directory)
    shutil.rmtree(directory / PARTIAL)
