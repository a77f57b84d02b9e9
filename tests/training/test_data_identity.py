"""The names and the hash of a corpus: the same for infra at preview, for hosts and on another machine."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from training.data.identity import (
    DataError,
    Manifest,
    PrepareOptions,
    Split,
    content_id,
    corpus_files,
    read_manifest,
)

OPTIONS = PrepareOptions()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    root = tmp_path / "corpus"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "__pycache__").mkdir()
    (root / ".git").mkdir()
    for name in ("b.txt", "a.md", "deep/c.py", "deep/er/d.jsonl", ".hidden", "__pycache__/x.txt", ".git/config"):
        (root / name).write_text(f"text of {name}\n")
    return root


def names(inputs: list[str], base: Path) -> list[str]:
    return [file.name for file in corpus_files(inputs, base)]


def test_directory_is_recursed_without_hidden_files_and_caches(corpus: Path) -> None:
    assert names(["corpus"], corpus.parent) == ["a.md", "b.txt", "deep/c.py", "deep/er/d.jsonl"]


def test_a_link_to_a_file_is_followed_and_one_to_a_directory_is_not(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.txt").write_text("text of another place\n")
    (corpus / "linked.txt").symlink_to(tmp_path / "elsewhere.txt")
    (corpus / "round").symlink_to(corpus)
    found = {file.name: file.path for file in corpus_files(["corpus"], tmp_path)}
    assert list(found) == ["a.md", "b.txt", "deep/c.py", "deep/er/d.jsonl", "linked.txt"]
    assert found["linked.txt"] == tmp_path / "elsewhere.txt"


def test_one_corpus_has_one_content_however_it_is_named(corpus: Path) -> None:
    ways = [["corpus"], [str(corpus)], ["./corpus/"], ["corpus/**/*"], ["corpus", "corpus/a.md"]]
    assert len({content_id(corpus_files(way, corpus.parent), OPTIONS, None) for way in ways}) == 1


def test_a_copy_elsewhere_with_other_times_has_the_same_content(corpus: Path, tmp_path: Path) -> None:
    copy = tmp_path / "other place" / "copied"
    shutil.copytree(corpus, copy, copy_function=shutil.copyfile)
    assert content_id(corpus_files(["corpus"], tmp_path), OPTIONS, None) == content_id(
        corpus_files(["copied"], copy.parent), OPTIONS, None
    )


def test_content_changes_with_bytes_names_and_every_option_that_has_an_effect(corpus: Path, tmp_path: Path) -> None:
    def content(options: PrepareOptions = OPTIONS) -> str:
        return content_id(corpus_files(["corpus"], tmp_path), options, None)

    variants = [
        dataclasses.replace(OPTIONS, **change)
        for change in (
            {"seed": 1},
            {"record_bytes": 0},
            {"heldout_fraction": 0.1},
            {"text_key": "body"},
            {"tokenizer": "none"},
            {"vocab_size": 512},
            {"add_bos": False},
            {"add_eos": False},
        )
    ]
    seen = {content(), *map(content, variants)}
    (corpus / "b.txt").write_text("other")
    seen.add(content())
    (corpus / "b.txt").rename(corpus / "z.txt")
    seen.add(content())
    assert len(seen) == len(variants) + 3


@pytest.mark.usefixtures("corpus")
def test_vocabulary_size_is_no_part_of_the_content_where_no_tokenizer_is_trained(tmp_path: Path) -> None:
    files = corpus_files(["corpus"], tmp_path)
    small, large = (PrepareOptions(tokenizer="none", vocab_size=size) for size in (300, 4096))
    assert content_id(files, small, None) == content_id(files, large, None)


@pytest.mark.usefixtures("corpus")
def test_a_tokenizer_counts_by_its_bytes_not_by_its_path(tmp_path: Path) -> None:
    files = corpus_files(["corpus"], tmp_path)
    for name in ("one.model", "two.model"):
        (tmp_path / name).write_bytes(b"model")
    one, two = (PrepareOptions(tokenizer=str(tmp_path / name)) for name in ("one.model", "two.model"))
    assert content_id(files, one, None) == content_id(files, two, None)


def test_files_of_one_name_are_numbered_and_keep_their_suffix(tmp_path: Path) -> None:
    for directory in ("x", "y"):
        (tmp_path / directory / "sub").mkdir(parents=True)
        (tmp_path / directory / "sub" / "t.jsonl.gz").write_text(directory)
    assert names(["x", "y"], tmp_path) == ["sub/t#2.jsonl.gz", "sub/t.jsonl.gz"]


def test_the_standard_library_is_found_alike_by_another_environment_of_this_python(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    program = (
        "from pathlib import Path; from training.data.identity import *; "
        "print(content_id(corpus_files(['stdlib'], Path()), PrepareOptions(), None))"
    )
    root = Path(__file__).parents[2]
    other = subprocess.run(
        [tmp_path / "venv" / "bin" / "python", "-c", program],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
        cwd=tmp_path,
    )
    files = corpus_files(["stdlib"], tmp_path)
    assert other.stdout.strip() == content_id(files, OPTIONS, None)
    assert len(files) > 500
    assert all(file.name.startswith("stdlib/") and file.name.endswith(".py") for file in files)
    left_out = {"test", "tests", "idle_test", "site-packages", "__pycache__"}
    assert not [file.name for file in files if left_out & set(file.name.split("/"))]
    assert "stdlib/pydoc_data/topics.py" in {file.name for file in files}


def test_the_cache_saves_reading_again_and_sees_a_change(corpus: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache" / "hashes.json"
    target = corpus / "b.txt"
    for path in corpus.rglob("*"):
        os.utime(path, (1_000_000, 1_000_000))
    files = corpus_files(["corpus"], tmp_path)
    first = content_id(files, OPTIONS, cache)
    remembered = json.loads(cache.read_text())
    remembered["files"][str(target)][2] = "0" * 64  # so that a hash from the cache shows
    cache.write_text(json.dumps(remembered))
    assert content_id(files, OPTIONS, cache) != first
    target.write_text("changed, and longer than before")
    changed = content_id(files, OPTIONS, cache)
    assert changed == content_id(files, OPTIONS, None)


@pytest.mark.usefixtures("corpus")
def test_a_file_written_just_now_is_not_remembered(tmp_path: Path) -> None:
    cache = tmp_path / "hashes.json"
    content_id(corpus_files(["corpus"], tmp_path), OPTIONS, cache)
    assert not cache.exists()


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", '{"version": 1}', '{"version": 9, "files": {}}', '{"version":1,"files":{"a":[1]}}']
)
def test_a_broken_cache_is_rebuilt(corpus: Path, tmp_path: Path, broken: str) -> None:
    cache = tmp_path / "hashes.json"
    cache.write_text(broken)
    for path in corpus.rglob("*"):
        os.utime(path, (1_000_000, 1_000_000))
    files = corpus_files(["corpus"], tmp_path)
    assert content_id(files, OPTIONS, cache) == content_id(files, OPTIONS, None)
    assert len(json.loads(cache.read_text())["files"]) == len(files)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "no input: name a file, a directory, a glob or 'stdlib' (this Python's standard library)"),
        (["nothere"], "input 'nothere' does not exist (looked for {base}/nothere)"),
        (["*.none"], "input '*.none' matches no file (looked in {base}/*.none)"),
        (["empty"], "input 'empty' matches no file (looked in {base}/empty)"),
        (["links"], "{base}/links/dead.txt is a link to nothing: remove it or leave its directory out"),
    ],
)
def test_inputs_that_cannot_be_resolved_are_named(tmp_path: Path, inputs: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "dead.txt").symlink_to(tmp_path / "gone")
    with pytest.raises(DataError) as error:
        corpus_files(inputs, tmp_path)
    assert str(error.value) == message.format(base=tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"record_bytes": 10}, {"heldout_fraction": 0.0}, {"heldout_fraction": 1.0}, {"seed": -1}, {"vocab_size": 260}],
)
def test_options_that_cannot_work_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(DataError, match=str(next(iter(options.values())))):
        PrepareOptions(**options)


def test_a_manifest_reads_back_as_it_was_written(tmp_path: Path) -> None:
    split = Split(1, 2, 3, 4, 5, 1.25, ())
    manifest = Manifest(1, "0" * 16, 0, {"seed": 0}, (), split, dataclasses.replace(split, tokens=None), None)
    (tmp_path / "manifest.json").write_text(manifest.to_json())
    assert read_manifest(tmp_path) == manifest


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 99}', '{"version": 1, "content": "x"}'])
def test_a_manifest_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(DataError, match=r"manifest\.json is not a manifest of this version .*: prepare the data anew"):
        read_manifest(tmp_path)


def test_an_absent_manifest_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"manifest\.json does not exist: prepare the data with `slipway data prepare`"):
        read_manifest(tmp_path)
