"""`python -m training.data.prepare INPUT... --out DIR`: text to shuffled shards, a tokenizer and a manifest.

Owns the command line, the exit code and what is said to people. The work is in `pipeline`.
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from training.data import pipeline
from training.data.hash_cache import HashCache
from training.data.identity import (
    MANIFEST,
    NO_TOKENIZER,
    TRAIN_TOKENIZER,
    DataError,
    Manifest,
    PrepareOptions,
    canonical_options,
    content_of,
    corpus_files,
    read_manifest,
    source_digests,
)
from training.data.partial import PARTIAL, WorkError, locked
from training.data.prepared import check_files
from training.data.reading import Corpus
from training.data.workers import PreparationProgress
from training.exit_codes import ExitCode


def main(arguments: Sequence[str] | None = None) -> ExitCode:
    """Prepare, say the result on stdout; say what is wrong on stderr in one sentence."""
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        print(_prepare(given))
    except DataError as error:
        return _refuse(str(error), ExitCode.BAD_INPUT)
    except WorkError as error:
        return _refuse(str(error), ExitCode.FAILED)
    except OSError as error:
        return _refuse(_cause(error, given.out), ExitCode.FAILED)
    except KeyboardInterrupt:
        _refuse(f"interrupted; run again to continue in {given.out}", ExitCode.INTERRUPTED)
        sys.stdout.flush()
        os._exit(ExitCode.INTERRUPTED)  # a normal exit would wait for work under way; workers die with this process
    return ExitCode.FINISHED


def _prepare(given: argparse.Namespace) -> str:
    options = PrepareOptions(**{field.name: getattr(given, field.name) for field in dataclasses.fields(PrepareOptions)})
    corpus = _corpus(given.inputs, options, given.cache)
    out: Path = given.out
    if out.exists() and not out.is_dir():
        raise DataError(f"--out {out} is a file: name a directory")
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        if (out / MANIFEST).exists():
            manifest = _finished(out, corpus.content)
            return f"nothing to do: {_summary(out, manifest)}"
        return _summary(out, pipeline.prepare(corpus, out, given.processes))


def _corpus(inputs: Sequence[str], options: PrepareOptions, cache: Path | None) -> Corpus:
    files = corpus_files(inputs, Path.cwd())
    stats = [file.path.stat() for file in files]
    hashes = HashCache(cache)
    digests: list[str] = []
    with PreparationProgress("hashing", sum(stat.st_size for stat in stats)) as progress:
        for (_, digest), stat in zip(source_digests(files, hashes), stats, strict=True):
            digests.append(digest)
            progress.advance(stat.st_size)
    canonical = canonical_options(options, hashes)
    hashes.save()
    return Corpus(
        files=tuple(files),
        sizes=tuple(stat.st_size for stat in stats),
        times_ns=tuple(stat.st_mtime_ns for stat in stats),
        digests=tuple(digests),
        options=options,
        canonical=canonical,
        content=content_of({file.name: digest for file, digest in zip(files, digests, strict=True)}, canonical),
    )


def _finished(out: Path, content: str) -> Manifest:
    """The manifest of a directory that is complete and holds this content."""
    manifest = read_manifest(out)
    if manifest.content != content:
        raise DataError(
            f"{out} holds other data ({manifest.content}, this is {content}): choose another --out, or remove it"
        )
    check_files(out, manifest)
    return manifest


def _summary(out: Path, manifest: Manifest) -> str:
    documents = sum(source.documents for source in manifest.sources)
    text_bytes = manifest.train.bytes + manifest.heldout.bytes
    lines = [f"{out}: {documents:,} documents, {text_bytes / 1e6:,.1f} MB of text, content {manifest.content}"]
    for name, split in (("train", manifest.train), ("heldout", manifest.heldout)):
        tokens = "" if split.tokens is None else f", {split.tokens:,} tokens"
        lines.append(f"{name}: {split.documents:,} documents, {split.records:,} records{tokens}")
    if manifest.tokenizer and manifest.heldout.unigram_entropy_nats is not None:
        lines.append(
            f"tokenizer: {manifest.tokenizer.vocab_size:,} pieces; held-out unigram entropy "
            f"{manifest.heldout.unigram_entropy_nats:.3f} nats per token"
        )
    return "\n".join(lines)


def _refuse(message: str, code: ExitCode) -> ExitCode:
    print(f"prepare: {message}", file=sys.stderr, flush=True)
    return code


def _cause(error: OSError, out: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"no space for {out} ({error.strerror}): free some, about twice the text, and run again to continue"
    return f"{error.strerror or error}: {error.filename or out}"


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slipway data prepare",
        description=f"Text to shuffled ArrayRecord shards with a held-out split, a tokenizer and {MANIFEST}. "
        f"A killed preparation continues from DIR/{PARTIAL} when it is run again.",
    )
    parser.set_defaults(**dataclasses.asdict(PrepareOptions()))  # so each option of that name has its default
    add = parser.add_argument
    add("inputs", nargs="+", metavar="INPUT", help="file, directory, 'glob', or stdlib (this Python's own sources)")
    add("--out", type=Path, required=True, metavar="DIR", help="where the prepared data goes")
    add("--text-key", help="of JSON lines (default: %(default)s)")
    add("--record-bytes", type=int, help="longest record; 0: whole documents (%(default)s)")
    add("--heldout-fraction", type=float, help="of documents (%(default)s)")
    add("--seed", type=int, help="of order and split (%(default)s)")
    add(
        "--tokenizer",
        metavar="PATH",
        help=f"a sentencepiece model, '{TRAIN_TOKENIZER}' (default) or '{NO_TOKENIZER}' (no token counts)",
    )
    add("--vocab-size", type=int, help="of a trained tokenizer (%(default)s)")
    for name in ("bos", "eos"):
        said = f"count {name.upper()} of each record, as MaxText's add_{name}"
        add(f"--add-{name}", action=argparse.BooleanOptionalAction, help=said)
    add("--processes", type=_at_least_one, default=len(os.sched_getaffinity(0)), help="workers (%(default)s)")
    add("--cache", type=Path, metavar="FILE", help="remembers file hashes by size and time")
    return parser


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: give 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main())
