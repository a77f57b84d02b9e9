"""Which files a corpus is made of, and the hash that names it with the options. A leaf: standard library only.

Owns what infra and the hosts must agree on before a byte is prepared: resolving inputs, the options, the content id and
the form of the manifest. Refuses to read text and to prepare anything.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from training.data.hash_cache import HashCache

VERSION = 1  # of the prepared format: whatever changes the bytes of a shard, a tokenizer or a count raises it
STDLIB = "stdlib"
TRAIN_TOKENIZER = "train"
NO_TOKENIZER = "none"
JSON_SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.model"
DEFAULT_RECORD_BYTES = 8192
_GLOB = frozenset("*?[")
_STDLIB_LEFT_OUT = frozenset({"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"})


class DataError(ValueError):
    """The corpus, the options or a prepared directory cannot work; one sentence with the value and what to do."""


@dataclass(frozen=True)
class SourceFile:
    """One input file. `name` is relative to its input's root, so another machine gives the same name."""

    name: str
    path: Path

    @property
    def is_json(self) -> bool:
        return self.name.endswith(JSON_SUFFIXES)

    @property
    def is_gzip(self) -> bool:
        return self.name.endswith(".gz")


@dataclass(frozen=True)
class PrepareOptions:
    """What changes the prepared bytes. `tokenizer` is `train`, `none` or the path of a sentencepiece model.

    `record_bytes` bounds a record's text (0: whole documents), `heldout_fraction` is a share of documents, `add_bos`
    and `add_eos` are MaxText's settings of the same names: they change counts, not records.
    """

    seed: int = 0
    record_bytes: int = DEFAULT_RECORD_BYTES
    heldout_fraction: float = 0.02
    text_key: str = "text"
    tokenizer: str = TRAIN_TOKENIZER
    vocab_size: int = 4096
    add_bos: bool = True
    add_eos: bool = True

    def __post_init__(self) -> None:
        if self.record_bytes != 0 and self.record_bytes < 64:
            raise DataError(f"record size of {self.record_bytes} bytes: give 0 (whole documents) or at least 64")
        if not 0 < self.heldout_fraction < 1:
            raise DataError(f"held-out fraction {self.heldout_fraction}: give a share between 0 and 1, such as 0.02")
        if not 0 <= self.seed < 2**63:
            raise DataError(f"seed {self.seed}: give a whole number from 0 to 2^63 - 1")
        if self.vocab_size <= 260:
            raise DataError(
                f"vocabulary of {self.vocab_size}: 256 byte and 4 special pieces are in it, give more than 260"
            )


@dataclass(frozen=True)
class FileEntry:
    """A file of the prepared directory, by its name there."""

    name: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class SourceEntry:
    """A source and its non-empty documents. Same bytes under another path keep the entry."""

    name: str
    sha256: str
    bytes: int
    documents: int


@dataclass(frozen=True)
class Split:
    """One split. `bytes` is text, before compression. Tokens are per record as MaxText encodes it, BOS and EOS counted.

    `unigram_entropy_nats` is -sum p ln p over the split's own tokens, nats per token: what a model reaches that knows
    only frequencies. The loss is over targets, which are these tokens but for the first of each packed row.
    Token fields are None without a tokenizer.
    """

    documents: int
    records: int
    bytes: int
    tokens: int | None
    longest_record_tokens: int | None
    unigram_entropy_nats: float | None
    files: tuple[FileEntry, ...]


@dataclass(frozen=True)
class TokenizerEntry:
    """The sentencepiece model and its special ids (-1: it has none)."""

    file: FileEntry
    vocab_size: int
    pad_id: int
    eos_id: int
    bos_id: int
    unk_id: int


@dataclass(frozen=True)
class Manifest:
    """What a prepared directory holds. Written last: where it stands, the directory is complete."""

    version: int
    content: str
    seed: int
    options: dict[str, str | int | float | bool | None]
    sources: tuple[SourceEntry, ...]
    train: Split
    heldout: Split
    tokenizer: TokenizerEntry | None

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """All but the manifest itself."""
        return (*self.train.files, *self.heldout.files, *((self.tokenizer.file,) if self.tokenizer else ()))

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"


def corpus_files(inputs: Sequence[str], base: Path) -> list[SourceFile]:
    """The files of `inputs` sorted by name: files, directories, globs (relative ones against `base`) or `stdlib`.

    A file met twice counts once. When two inputs hold one name, the later file's name gets `#2`, `#3` ...
    """
    if not inputs:
        raise DataError(f"no input: name a file, a directory, a glob or '{STDLIB}' (this Python's standard library)")
    named: dict[str, SourceFile] = {}
    seen: set[Path] = set()
    for text in inputs:
        for relative, path in _resolve(text, base):
            if path in seen:
                continue
            seen.add(path)
            name, copy = relative, 1
            while name in named:
                copy += 1
                name = _numbered(relative, copy)
            named[name] = SourceFile(name, path)
    return [named[name] for name in sorted(named)]


def _numbered(name: str, copy: int) -> str:
    """`a/b.jsonl.gz` -> `a/b#2.jsonl.gz`: the suffix says how to read the file, so it stays."""
    directory, slash, last = name.rpartition("/")
    stem, dot, suffix = last.partition(".")
    return f"{directory}{slash}{stem}#{copy}{dot}{suffix}"


def _resolve(text: str, base: Path) -> Iterator[tuple[str, Path]]:
    """(name, absolute path) of each file of one input."""
    if text == STDLIB:
        root = Path(sysconfig.get_path("stdlib")).resolve()  # the base interpreter's, also from a virtual environment
        yield from ((f"{STDLIB}/{name}", path) for name, path in _walk(root, _STDLIB_LEFT_OUT) if _is_stdlib(path))
        return
    pattern = base / Path(text).expanduser()
    if pattern.is_dir():
        found = list(_walk(pattern.resolve(), frozenset({"__pycache__"})))
    elif pattern.exists():
        found = [(pattern.name, pattern.resolve())]
    elif _GLOB & set(text):
        found = list(_glob(pattern))
    else:
        raise DataError(f"input '{text}' does not exist (looked for {pattern})")
    if not found:
        raise DataError(f"input '{text}' matches no file (looked in {pattern})")
    yield from found


def _glob(pattern: Path) -> Iterator[tuple[str, Path]]:
    """Files that match, named relative to the part of the pattern before its first wildcard."""
    parts = pattern.parts
    first = next(index for index, part in enumerate(parts) if _GLOB & set(part))
    root = Path(*parts[:first])
    for match in sorted(root.glob("/".join(parts[first:]))):
        relative = match.relative_to(root)
        if match.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in relative.parts):
            yield relative.as_posix(), match.resolve()


def _walk(root: Path, left_out: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """Files below `root`, without hidden ones; links to files are followed, links to directories are not.

    `root` is resolved, so only a link needs resolving: doing it for every file is most of a preview's time here.
    """
    pending = [(os.fspath(root), "")]
    while pending:
        directory, prefix = pending.pop()
        with os.scandir(directory) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if entry.name in left_out:
                        continue
                    pending.append((entry.path, f"{prefix}{entry.name}/"))
                elif entry.is_symlink():
                    target = Path(entry.path)
                    if not target.exists():
                        raise DataError(f"{target} is a link to nothing: remove it or leave its directory out")
                    if target.is_file():
                        yield prefix + entry.name, target.resolve()
                elif entry.is_file(follow_symlinks=False):
                    yield prefix + entry.name, Path(entry.path)


def _is_stdlib(path: Path) -> bool:
    """Python sources that every build of one version shares: not what records how this one was built."""
    built_here = path.name.startswith("_sysconfigdata") or path.parent.name.startswith("config-")
    return path.suffix == ".py" and not built_here and path.name not in ("sitecustomize.py", "usercustomize.py")


def canonical_options(options: PrepareOptions, cache: HashCache) -> dict[str, str | int | float | bool | None]:
    """The options as the content id and the manifest see them: no path, and nothing that has no effect."""
    fields: dict[str, str | int | float | bool | None] = dataclasses.asdict(options)
    if options.tokenizer != TRAIN_TOKENIZER:
        fields["vocab_size"] = None
    if options.tokenizer == NO_TOKENIZER:
        fields["add_bos"] = fields["add_eos"] = None
    elif options.tokenizer != TRAIN_TOKENIZER:
        fields["tokenizer"] = f"sha256:{_sha256(cache, Path(options.tokenizer).expanduser().absolute())}"
    return fields


def source_digests(files: Sequence[SourceFile], cache: HashCache) -> Iterator[tuple[SourceFile, str]]:
    """Each file with the SHA-256 of its bytes, one by one because a large corpus takes its time."""
    for file in files:
        yield file, _sha256(cache, file.path)


def _sha256(cache: HashCache, path: Path) -> str:
    try:
        return cache.sha256(path)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error


def content_id(files: Sequence[SourceFile], options: PrepareOptions, cache: Path | None) -> str:
    """16 hex digits over names, bytes and options. `cache` remembers hashes by path, size and time; it may be lost."""
    hashes = HashCache(cache)
    digests = {file.name: digest for file, digest in source_digests(files, hashes)}
    identity = content_of(digests, canonical_options(options, hashes))
    hashes.save()
    return identity


def content_of(digests: dict[str, str], options: dict[str, str | int | float | bool | None]) -> str:
    """The content id from the SHA-256 of each source, by name, and the canonical options."""
    document = {"version": VERSION, "options": options, "files": sorted(digests.items())}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a prepared directory. Raises DataError naming the file if it is absent or not one of ours."""
    path = directory / MANIFEST
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise DataError(
            f"{path} does not exist: prepare the data with `slipway data prepare` and bring it there"
        ) from error
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a manifest of this version ({error!r}): prepare the data anew") from error
    return parse_manifest(text, str(path))


def parse_manifest(text: str, place: str) -> Manifest:
    """The manifest that was read at `place`. Raises DataError naming it if it is not one of ours."""
    try:
        return _manifest(cast(dict[str, Any], json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{place} is not a manifest of this version ({error!r}): prepare the data anew") from error


def _manifest(document: dict[str, Any]) -> Manifest:
    if document["version"] != VERSION:
        raise ValueError(f"version {document['version']}, this code reads {VERSION}")
    tokenizer = document["tokenizer"]
    return Manifest(
        version=VERSION,
        content=document["content"],
        seed=document["seed"],
        options=document["options"],
        sources=tuple(SourceEntry(**source) for source in document["sources"]),
        train=_split(document["train"]),
        heldout=_split(document["heldout"]),
        tokenizer=_tokenizer(tokenizer) if tokenizer else None,
    )


def _split(document: dict[str, Any]) -> Split:
    files = tuple(FileEntry(**file) for file in document.pop("files"))
    return Split(files=files, **document)


def _tokenizer(document: dict[str, Any]) -> TokenizerEntry:
    file = FileEntry(**document.pop("file"))
    return TokenizerEntry(file=file, **document)
