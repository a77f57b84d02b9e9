"""Prepared data is what its name says, or it is refused: in a preview, in `up` and where hosts read it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.providers.inputs import PreparedDataInputs
from infra.providers.prepared_data_resource import PreparedDataResource
from infra.providers.resource import Context, ResourceError
from infra.runs import run_data, run_plan
from infra.stack_file.settings import SettingsError, check
from infra.targets.local.settings import LocalSettings
from tests.unit.test_settings import values
from training.data.hash_cache import HashCache
from training.data.identity import (
    FileEntry,
    Manifest,
    PrepareOptions,
    SourceEntry,
    Split,
    TokenizerEntry,
    canonical_options,
    content_of,
    corpus_files,
    source_digests,
)
from training.data.prepared import damaged, read_prepared

TOKENS = 10**9
RECORDS = {"train": 1000, "heldout": 9}
OPTIONS = PrepareOptions()
AGAIN = "remove the directory, and prepare the data again (`pulumi up` does)"


def prepared(root: Path, corpus: Path, options: PrepareOptions = OPTIONS) -> Path:
    """A directory as training.data.prepare leaves it, named by its content; its shards are not real ones."""
    cache = HashCache(None)
    digests = {file.name: digest for file, digest in source_digests(corpus_files([str(corpus)], root), cache)}
    canonical = canonical_options(options, cache)
    directory = root / "data" / content_of(digests, canonical)
    directory.mkdir(parents=True)
    manifest = Manifest(
        version=1,
        content=directory.name,
        seed=options.seed,
        options=canonical,
        sources=tuple(SourceEntry(name, digest, 1, 1) for name, digest in digests.items()),
        train=_split(directory, "train"),
        heldout=_split(directory, "heldout"),
        tokenizer=TokenizerEntry(_file(directory, "tokenizer.model"), 4096, 0, 1, 2, 3),
    )
    (directory / "manifest.json").write_text(manifest.to_json())
    return directory


def _split(directory: Path, name: str) -> Split:
    return Split(1, RECORDS[name], 1, TOKENS, 1, 1.0, (_file(directory, f"{name}-00000-of-00001.array_record"),))


def _file(directory: Path, name: str) -> FileEntry:
    content = f"{directory.name} {name}".encode()
    (directory / name).write_bytes(content)
    return FileEntry(name, hashlib.sha256(content).hexdigest(), len(content))


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("some text\n")
    return tmp_path / "corpus"


def created(directory: Path) -> str:
    """What the resource's create says: its id, or why not. Nothing is prepared: arguments and bundle are empty."""
    inputs = PreparedDataInputs(str(directory), 1000, 1, "keep", [], "", "", "")
    call = Context("", time.monotonic() + 900, threading.Event(), lambda _: None, lambda _: None)
    try:
        identifier, outputs = PreparedDataResource().create(call, inputs)
    except ResourceError as error:
        assert PreparedDataResource().read(call, directory.name, dataclasses.asdict(inputs)) is None
        return str(error)
    assert PreparedDataResource().update(call, identifier, outputs, inputs) == outputs
    assert outputs == {"train_tokens": TOKENS, "heldout_tokens": TOKENS}
    return identifier


def test_data_that_is_what_its_name_says_is_taken(tmp_path: Path, corpus: Path) -> None:
    directory = prepared(tmp_path, corpus)
    assert created(directory) == directory.name


def test_a_copied_directory_is_other_data(tmp_path: Path, corpus: Path) -> None:
    """The incident: the corpus was edited, and the directory of before copied to where the new one would be."""
    before = prepared(tmp_path, corpus)
    (corpus / "a.txt").write_text("other text\n")
    after = prepared(tmp_path, corpus)
    shutil.rmtree(after)
    shutil.copytree(before, after)
    assert (
        created(after)
        == f"{after} holds other data (its manifest says {before.name}, expected is {after.name}): {AGAIN}"
    )


def test_a_manifest_that_was_made_to_fit_is_refused(tmp_path: Path, corpus: Path) -> None:
    directory = prepared(tmp_path, corpus)
    renamed = directory.with_name("0" * 16)
    shutil.copytree(directory, renamed)
    text = (renamed / "manifest.json").read_text()
    (renamed / "manifest.json").write_text(text.replace(directory.name, renamed.name))
    said = (
        f"{renamed}/manifest.json says {renamed.name}, but the sources and options in it are {directory.name}: {AGAIN}"
    )
    assert created(renamed) == said


def _cut_short(directory: Path) -> None:
    (directory / "train-00000-of-00001.array_record").write_text("")


def _without_heldout(directory: Path) -> None:
    (directory / "heldout-00000-of-00001.array_record").unlink()


def _another_tokenizer(directory: Path) -> None:
    path = directory / "tokenizer.model"
    path.write_bytes(path.read_bytes()[::-1])


def _a_shard_more(directory: Path) -> None:
    """The input pipeline reads train-*, whoever put it there."""
    (directory / "train-00001-of-00002.array_record").write_text("of another corpus")


def _no_manifest(directory: Path) -> None:
    (directory / "manifest.json").write_text("{}")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_cut_short, "{}/train-00000-of-00001.array_record is missing or has not 50 bytes: " + AGAIN),
        (_without_heldout, "{}/heldout-00000-of-00001.array_record is missing or has not 52 bytes: " + AGAIN),
        (_another_tokenizer, "{}/tokenizer.model is not the tokenizer of the manifest beside it: " + AGAIN),
        (_a_shard_more, "{} holds train-00001-of-00002.array_record, which its manifest does not name: " + AGAIN),
        (
            _no_manifest,
            "{}/manifest.json is not a manifest of this version (KeyError('version')): prepare the data anew",
        ),
    ],
)
def test_a_directory_that_was_changed_is_refused(
    change: Callable[[Path], None], said: str, tmp_path: Path, corpus: Path
) -> None:
    directory = prepared(tmp_path, corpus)
    change(directory)
    assert created(directory) == said.format(directory)


def test_what_lies_on_something_that_went_away_is_damaged(tmp_path: Path, corpus: Path) -> None:
    """Of a training whose mount is gone: the end of it is said, whatever can be read."""
    directory = prepared(tmp_path, corpus)
    assert damaged(directory, 60) == []
    (directory / "train-00000-of-00001.array_record").unlink()
    assert damaged(directory, 60) == ["train-00000-of-00001.array_record"]
    shutil.rmtree(directory)
    assert damaged(directory, 60) == ["manifest.json"]


def test_numbers_of_the_options_survive_the_manifest(tmp_path: Path, corpus: Path) -> None:
    directory = prepared(tmp_path, corpus, PrepareOptions(heldout_fraction=0.1 + 0.2, seed=2**40))
    assert json.loads((directory / "manifest.json").read_text())["options"]["seed"] == 2**40
    assert read_prepared(directory, directory.name).content == directory.name


def test_a_preview_refuses_other_data_by_its_name(tmp_path: Path, corpus: Path) -> None:
    settings = check("local", values(data=str(corpus)))
    assert isinstance(settings, LocalSettings)
    named = run_data.data_spec(settings)
    assert named
    expected = tmp_path / "work" / named.content
    spec = run_plan.run_spec(settings, tmp_path, dataclasses.replace(named, directory=str(expected)))
    shutil.copytree(prepared(tmp_path, corpus, PrepareOptions(seed=7)), expected)
    with pytest.raises(SettingsError) as caught:
        run_data.notices(settings, spec)
    assert str(caught.value).startswith(f"data: {expected} holds other data (its manifest says ")
    shutil.rmtree(expected)
    shutil.move(prepared(tmp_path, corpus), expected)
    assert any("training tokens: " in notice for notice in run_data.notices(settings, spec))


def test_sources_without_a_byte_are_refused_and_one_empty_file_is_not(corpus: Path) -> None:
    settings = check("local", values(data=str(corpus)))
    assert isinstance(settings, LocalSettings)
    (corpus / "b.txt").write_text("")
    assert run_data.data_spec(settings)
    (corpus / "a.txt").write_text("")
    with pytest.raises(SettingsError, match=f"data: every file of '{corpus}' is empty"):
        run_data.data_spec(settings)
