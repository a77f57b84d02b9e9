"""Preparation as real processes do it, and what MaxText's own pipeline makes of the result."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grain.python as grain
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from maxtext.input_pipeline import data_processing_utils, grain_tokenizer
from maxtext.input_pipeline.protos import example_pb2
from maxtext.input_pipeline.tokenizer import SentencePieceTokenizer
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from training.data.documents import PART_BYTES, Part, pieces, records
from training.data.identity import Manifest, SourceFile, read_manifest
from training.data.partial import locked
from training.data.shards import decode_example, encode_example, read_shard
from training.data.vocabulary import entropy_nats
from training.data.workers import PreparationProgress

ROOT = Path(__file__).parents[2]
LONG_LINES = 60_000
SECONDS = re.compile(r" \d+ s$")
SMALL = ("--vocab-size", "400", "--record-bytes", "1024")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "training.data.prepare", *map(str, arguments)]


def prepare(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the real command, with standard input closed as under a service."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", "-c", 'exec "$@" <&-', "bash", *command(*arguments)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=cwd,
        check=False,
    )


def prepared(*arguments: str | Path, cwd: Path) -> Manifest:
    done = prepare(*arguments, "--out", "out", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return read_manifest(cwd / "out")


def digests(directory: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


def texts(directory: Path, split: str) -> list[bytes]:
    return [text for shard in sorted(directory.glob(f"{split}-*.array_record")) for text in read_shard(shard)]


def line(document: str, number: int, rng: random.Random) -> str:
    words = rng.choices(["def", "return", "  if", "\tx = y", "größer", "漢字", "self.", "🙂"], k=12)
    return f"{document} {number:06d} {' '.join(words)}\n"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many short files, one of several MB, JSON lines and compressed ones; every line says whose and which it is."""
    rng = random.Random(7)
    root = tmp_path_factory.mktemp("a place with spaces") / "corpus"
    (root / "files").mkdir(parents=True)
    for index in range(60):
        name = f"file{index:03d}"
        content = "".join(line(name, number, rng) for number in range(rng.randrange(1, 80)))
        (root / "files" / f"{name}.txt").write_text(content.removesuffix("\n") if index % 3 else content)
    (root / "book.txt").write_text("".join(line("book", number, rng) for number in range(LONG_LINES)))
    with gzip.open(root / "packed.txt.gz", "wt") as packed:
        packed.writelines(line("packed", number, rng) for number in range(300))
    (root / "empty.txt").touch()
    with (root / "rows.jsonl").open("w") as rows, gzip.open(root / "rows2.json.gz", "wt") as rows2:
        for index in range(200):
            name = f"row{index:03d}"
            row = json.dumps({"body": "".join(line(name, number, rng) for number in range(rng.randrange(1, 30)))})
            (rows if index % 2 else rows2).write(f"{row}\n" if index % 7 else f"{row}\n\n")
    return root


@pytest.fixture(scope="module")
def first(corpus: Path) -> tuple[Path, Manifest]:
    manifest = prepared("corpus", "--text-key", "body", *SMALL, "--processes", "1", cwd=corpus.parent)
    return corpus.parent / "out", manifest


def sources(corpus: Path) -> dict[str, str]:
    """The documents of the corpus by the name that their lines begin with, found without the code under test."""
    rows = (corpus / "rows.jsonl").read_text() + gzip.decompress((corpus / "rows2.json.gz").read_bytes()).decode()
    found = [json.loads(row)["body"] for row in rows.splitlines() if row]
    found += [path.read_text() for path in [*corpus.glob("files/*.txt"), corpus / "book.txt"]]
    found.append(gzip.decompress((corpus / "packed.txt.gz").read_bytes()).decode())
    return {text.split(" ", 1)[0]: text for text in found}


def test_other_process_counts_and_another_copy_give_the_same_bytes(
    corpus: Path, first: tuple[Path, Manifest], tmp_path: Path
) -> None:
    shutil.copytree(corpus, tmp_path / "moved", copy_function=shutil.copyfile)
    prepared(tmp_path / "moved", "--text-key", "body", *SMALL, "--processes", "3", cwd=tmp_path)
    assert digests(tmp_path / "out") == digests(first[0])


def test_every_document_comes_back_whole_and_on_one_side(corpus: Path, first: tuple[Path, Manifest]) -> None:
    """Records are put together again by the numbers in their lines: several MB in one document lose nothing."""
    directory, manifest = first
    sides = {"train": manifest.train, "heldout": manifest.heldout}
    found: dict[str, dict[str, str]] = {}
    for side, split in sides.items():
        by_document: dict[str, list[str]] = {}
        for text in texts(directory, side):
            by_document.setdefault(text.decode().split(" ", 1)[0], []).append(text.decode())
        found[side] = {name: "".join(sorted(parts)) for name, parts in by_document.items()}
        assert split.documents == len(found[side])
        assert split.records == sum(map(len, by_document.values()))
        assert split.bytes == sum(len(text.encode()) for text in found[side].values())
    assert not found["train"].keys() & found["heldout"].keys()
    assert found["train"] | found["heldout"] == sources(corpus)
    assert sum(source.documents for source in manifest.sources) == len(sources(corpus)) == 262
    assert len(sources(corpus)["book"].encode()) > PART_BYTES  # so that two tasks read it


def test_parts_of_a_long_document_are_mixed_with_others(first: tuple[Path, Manifest]) -> None:
    order = [text.split(b" ")[1] for text in texts(first[0], "train") if text.startswith(b"book ")]
    rising = sum(a < b for a, b in pairwise(order))
    assert 0.4 < rising / len(order) < 0.6


def test_manifest_describes_the_files(first: tuple[Path, Manifest]) -> None:
    directory, manifest = first
    assert manifest.tokenizer is not None
    files = [*manifest.train.files, *manifest.heldout.files, manifest.tokenizer.file]
    assert {file.name: file.sha256 for file in files} | {
        "manifest.json": digests(directory)["manifest.json"]
    } == digests(directory)
    assert all((directory / file.name).stat().st_size == file.bytes for file in files)
    total = len(manifest.train.files)
    assert [f.name for f in manifest.train.files] == [
        f"train-{i:05d}-of-{total:05d}.array_record" for i in range(total)
    ]


def maxtext_tokens(directory: Path, split: str, bos: bool, eos: bool) -> list[list[int]]:
    """Token ids as MaxText's pre-training pipeline chunks them, from its own classes."""
    files = [str(path) for path in sorted(directory.glob(f"{split}-*.array_record"))]
    source: Any = grain.ArrayRecordDataSource(files)
    dataset = grain.MapDataset.source(source).to_iter_dataset()
    config = SimpleNamespace(grain_file_type="arrayrecord")
    dataset = data_processing_utils.parse_and_keep_features(dataset, config, ["text"], True)
    tokenizer = SentencePieceTokenizer(str(directory / "tokenizer.model"), bos, eos)
    chunks = dataset.apply(grain_tokenizer.TokenizeAndChunk("text", 512, tokenizer))
    return [chunk["text"].tolist() for chunk in chunks]


@pytest.fixture(scope="module")
def seen(first: tuple[Path, Manifest]) -> dict[str, Counter[int]]:
    """How often MaxText sees each token id, by split."""
    return {
        split: Counter(token for chunk in maxtext_tokens(first[0], split, True, True) for token in chunk)
        for split in ("train", "heldout")
    }


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_token_counts_and_entropy_are_what_maxtext_sees(
    first: tuple[Path, Manifest], seen: dict[str, Counter[int]], split: str
) -> None:
    manifest, ids = first[1], seen[split]
    expected = manifest.train if split == "train" else manifest.heldout
    assert expected.tokens == ids.total()
    entropy = -sum(n / ids.total() * math.log(n / ids.total()) for n in ids.values())
    assert expected.unigram_entropy_nats == pytest.approx(entropy, rel=1e-12)


def test_without_bos_and_eos_each_record_counts_two_tokens_less(
    corpus: Path, first: tuple[Path, Manifest], tmp_path: Path
) -> None:
    model = first[0] / "tokenizer.model"
    bare = prepared(
        corpus, "--text-key", "body", *SMALL, "--tokenizer", model, "--no-add-bos", "--no-add-eos", cwd=tmp_path
    )
    train = first[1].train
    assert train.tokens is not None
    assert bare.train.tokens == train.tokens - 2 * train.records
    assert bare.heldout.tokens == sum(map(len, maxtext_tokens(tmp_path / "out", "heldout", False, False)))
    assert (tmp_path / "out" / "tokenizer.model").read_bytes() == model.read_bytes()
    longest = train.longest_record_tokens
    assert longest is not None and bare.train.longest_record_tokens == longest - 2


def test_entropy_of_a_hand_computed_case() -> None:
    assert entropy_nats({5: 2, 7: 1, 9: 1}) == pytest.approx(1.5 * math.log(2))
    assert entropy_nats({3: 10}) == 0


def test_special_ids_mask_no_real_token(first: tuple[Path, Manifest], seen: dict[str, Counter[int]]) -> None:
    tokenizer = first[1].tokenizer
    assert tokenizer is not None
    assert (tokenizer.pad_id, tokenizer.eos_id, tokenizer.bos_id, tokenizer.unk_id) == (0, 1, 2, 3)
    assert not seen["train"].keys() & {tokenizer.pad_id, tokenizer.unk_id}


@settings(deadline=None)
@given(st.text(st.sampled_from(" \t\nabcdef():=_é漢🙂\r\u2028")))
def test_tokenizer_gives_text_back_with_newlines_and_indentation(first: tuple[Path, Manifest], text: str) -> None:
    tokenizer = SentencePieceTokenizer(str(first[0] / "tokenizer.model"), False, False)
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.binary(max_size=40_000))
def test_records_are_the_bytes_that_maxtext_protos_write(text: bytes) -> None:
    example = example_pb2.Example()  # pyright: ignore[reportAttributeAccessIssue]
    example.features.feature["text"].bytes_list.value.append(text)
    assert encode_example(text) == example.SerializeToString()
    assert decode_example(encode_example(text)) == text


@given(st.text(st.sampled_from("ab\né漢🙂"), max_size=300), st.integers(4, 40))
def test_joined_pieces_are_the_document(text: str, limit: int) -> None:
    whole = text.encode()
    parts = [part for _, part in pieces(whole, limit)]
    assert b"".join(parts) == whole
    assert [offset for offset, _ in pieces(whole, limit)] == [sum(map(len, parts[:i])) for i in range(len(parts))]
    assert all(part.decode() and len(part) <= limit for part in parts)
    for part in parts[:-1]:
        assert part.endswith(b"\n") or b"\n" not in part


@settings(deadline=None)
@given(
    st.text(st.sampled_from("ab\né漢🙂"), max_size=300),
    st.lists(st.integers(0, 900), max_size=4),
    st.integers(4, 40),
)
@example("漢漢漢漢", [4], 4)  # a part begins within a character
@example("a\n漢漢", [1], 4)  # and within a line
def test_a_text_file_read_in_parts_is_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, cuts: list[int], limit: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "parts.txt"
    path.write_bytes(text.encode())
    size = path.stat().st_size
    bounds = sorted({0, size, *(min(at, size) for at in cuts)})
    found = [
        record
        for start, end in pairwise(bounds)
        for record in records(SourceFile("parts.txt", path), Part(0, start, end), limit, "text")
    ]
    assert b"".join(text for _, _, text in found) == text.encode()
    assert [at for _, at, _ in found] == [sum(len(text) for _, _, text in found[:i]) for i in range(len(found))]
    assert all(record.decode() and len(record) <= limit for _, _, record in found)


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.text(st.sampled_from('ab"\né漢🙂'), max_size=30)), max_size=12),
    st.lists(st.integers(0, 900), max_size=4),
)
def test_json_lines_read_in_parts_are_all_read_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[str | None], cuts: list[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "parts.jsonl"
    path.write_text("".join("\n" if row is None else json.dumps({"text": row}) + "\n" for row in rows))
    size = path.stat().st_size
    bounds = sorted({0, size, *(min(at, size) for at in cuts)})
    found = [
        record
        for start, end in pairwise(bounds)
        for record in records(SourceFile("parts.jsonl", path), Part(0, start, end), 0, "text")
    ]
    assert [text.decode() for _, _, text in found] == [row for row in rows if row]
    assert len({at for at, _, _ in found}) == len(found)


def started(arguments: list[str | Path], cwd: Path, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=cwd,
        start_new_session=True,
    )


def finished_parts(work: Path) -> set[str]:
    return {path.name for path in work.glob("*.json")} if work.exists() else set()


def test_killed_again_and_again_it_ends_with_the_same_bytes(
    corpus: Path, first: tuple[Path, Manifest], tmp_path: Path
) -> None:
    """kill -9 of the process group, in turn when three parts are finished and as soon as a file is being written."""
    arguments = [corpus, "--text-key", "body", *SMALL, "--processes", "2", "--out", "out"]
    work = tmp_path / "out" / ".partial"
    kills = 0
    while True:
        before = finished_parts(work)
        process = started(arguments, tmp_path)
        half_written = kills % 2 == 1
        while process.poll() is None:
            if len(finished_parts(work) - before) >= 3 or (half_written and list(work.glob("*.tmp"))):
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
        kills += 1
    assert kills >= 2
    assert digests(tmp_path / "out") == digests(first[0])


def test_workers_end_with_a_killed_parent(corpus: Path, tmp_path: Path) -> None:
    process = started([corpus, "--text-key", "body", *SMALL, "--processes", "2", "--out", "out"], tmp_path)
    work = tmp_path / "out" / ".partial"
    while not finished_parts(work) - {"plan.json"}:
        assert process.poll() is None
    process.kill()
    process.wait()
    while members(process.pid):  # the test's own time limit ends a wait for a worker that stays
        pass


def test_a_worker_that_was_ended_is_named_and_what_is_finished_is_kept(
    corpus: Path, first: tuple[Path, Manifest], tmp_path: Path
) -> None:
    arguments: list[str | Path] = [corpus, "--text-key", "body", *SMALL, "--processes", "1", "--out", "out"]
    process = started(arguments, tmp_path, stderr=subprocess.PIPE)
    work = tmp_path / "out" / ".partial"
    while not finished_parts(work) - {"plan.json"}:
        assert process.poll() is None
    os.kill(int(worker_of(process.pid)), signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 1
    assert said.decode().splitlines()[-1] == (
        "prepare: a worker process was ended from outside, perhaps for lack of memory: run again with fewer "
        "--processes, what is finished is kept"
    )
    assert finished_parts(work) - {"plan.json"}
    again = prepare(*arguments, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert digests(tmp_path / "out") == digests(first[0])


def worker_of(parent: int) -> str:
    """The child that works; the other one is multiprocessing's own tracker of resources."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    (worker,) = (child for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes())
    return worker


def members(group: int) -> list[str]:
    """Processes of a process group that still run."""
    found: list[str] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(stat.parent.name)
    return found


def test_a_termination_says_how_to_continue(corpus: Path, tmp_path: Path) -> None:
    process = started([corpus, "--text-key", "body", *SMALL, "--out", "out"], tmp_path)
    while not finished_parts(tmp_path / "out" / ".partial"):
        assert process.poll() is None
    process.terminate()
    assert process.wait() == 75


def test_a_second_run_has_nothing_to_do_and_other_options_are_refused(
    corpus: Path, first: tuple[Path, Manifest]
) -> None:
    directory, manifest = first
    before = digests(directory)
    again = prepare("corpus", "--text-key", "body", *SMALL, "--out", "out", cwd=corpus.parent)
    assert (again.returncode, again.stdout.startswith("nothing to do: out: 262 documents")) == (0, True)
    other = prepare("corpus", "--text-key", "body", *SMALL, "--seed", "1", "--out", "out", cwd=corpus.parent)
    assert other.returncode == 2
    assert other.stderr.startswith(f"prepare: out holds other data ({manifest.content}, this is ")
    assert digests(directory) == before


def test_leftovers_of_other_options_are_replaced(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / ".partial").mkdir(parents=True)
    (tmp_path / "out" / ".partial" / "plan.json").write_text('{"content": "something else", "threshold": 0}')
    (tmp_path / "out" / ".partial" / "read-00000.json").write_text("{}")
    assert prepared(corpus, "--text-key", "body", "--tokenizer", "none", cwd=tmp_path).train.tokens is None
    assert not (tmp_path / "out" / ".partial").exists()


def test_a_directory_in_use_is_left_alone(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with locked(tmp_path / "out"):
        second = prepare(corpus, "--text-key", "body", "--out", "out", cwd=tmp_path)
    assert (second.returncode, second.stderr) == (
        1,
        "prepare: another process is preparing out: wait for it, then run again\n",
    )


def test_few_json_lines_still_leave_one_held_out(tmp_path: Path) -> None:
    (tmp_path / "few.jsonl").write_text("".join(json.dumps({"text": f"text {i}"}) + "\n" for i in range(5)))
    manifest = prepared("few.jsonl", "--tokenizer", "none", "--heldout-fraction", "0.000001", cwd=tmp_path)
    assert (manifest.train.documents, manifest.heldout.documents) == (4, 1)


def test_whole_documents_are_kept_whole_on_request(tmp_path: Path) -> None:
    whole = ["line\n" * 40_000, "other\n" * 10]
    for index, text in enumerate(whole):
        (tmp_path / f"{index}.txt").write_text(text)
    prepared("*.txt", "--tokenizer", "none", "--record-bytes", "0", cwd=tmp_path)
    found = texts(tmp_path / "out", "train") + texts(tmp_path / "out", "heldout")
    assert sorted(map(len, found)) == sorted(map(len, whole))


def test_a_full_disk_is_said_and_what_is_finished_is_used_later(
    corpus: Path, first: tuple[Path, Manifest], tmp_path: Path
) -> None:
    arguments = [*command(corpus, "--text-key", "body", *SMALL, "--out", "out")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    full = subprocess.run(
        [
            "bash",
            "-c",
            'ulimit -f 1000; exec "$@"',
            "bash",
            *arguments,
        ],  # no file above 1 MB: the kernel refuses writes
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert full.returncode == 1
    assert full.stderr.splitlines()[-1] == (  # a slow machine has said before how far it is
        "prepare: no space for out (File too large): free some, about twice the text, and run again to continue"
    )
    assert not (tmp_path / "out" / "manifest.json").exists()
    prepared(corpus, "--text-key", "body", *SMALL, cwd=tmp_path)
    assert digests(tmp_path / "out") == digests(first[0])


def test_a_shard_that_cannot_be_written_is_no_shard(tmp_path: Path) -> None:
    program = (
        "import os; from pathlib import Path; from training.data.shards import write_shard; "
        "write_shard(Path('s.array_record'), [os.urandom(9000) for _ in range(300)])"
    )
    failed = subprocess.run(
        ["bash", "-c", 'ulimit -f 1000; exec "$@"', "bash", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        check=False,
    )
    assert "WorkError: cannot write s.array_record: " in failed.stderr
    assert list(tmp_path.iterdir()) == []


def model_without_bos(path: Path) -> None:
    written = io.BytesIO()
    sentences = ["the model of someone who needs no beginning", "a second sentence"] * 20
    SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=written, vocab_size=40, hard_vocab_limit=False, bos_id=-1
    )
    path.write_bytes(written.getvalue())
    assert SentencePieceProcessor(model_file=str(path)).bos_id() == -1


@pytest.mark.parametrize("on_terminal", [True, False])
def test_how_far_it_is_is_a_bar_on_a_terminal_and_lines_elsewhere(
    on_terminal: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("training.data.workers._LINE_EVERY_S", 0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: on_terminal)
    with PreparationProgress("reading", 4_000_000) as progress:
        progress.skip(1_000_000)
        progress.advance(2_000_000)
    said = capfd.readouterr().err
    if on_terminal:
        assert "reading:  75%|" in said
        assert "3.00M/4.00M" in said
    else:
        assert said.startswith("reading: 75% of 4.0 MB, ")
        assert said.count("\n") == 1


BAD: dict[str, tuple[list[str], str]] = {
    "missing": (["nothere.txt"], "input 'nothere.txt' does not exist (looked for {base}/nothere.txt)"),
    "no match": (["*.nothing"], "input '*.nothing' matches no file (looked in {base}/*.nothing)"),
    "empty": (["empty.txt"], "no text in the input: 1 files, every one empty"),
    "one": (
        ["good.txt"],
        "the input is one document, and the held-out split takes one: give at least two files or JSON lines",
    ),
    "all held out": (
        ["good.txt", "good2.txt", "--heldout-fraction", "0.999999"],
        "all 2 documents of the input would be held out: give a smaller --heldout-fraction",
    ),
    "not UTF-8": (
        ["good.txt", "latin.txt"],
        "{base}/latin.txt is not UTF-8 at byte 4: convert it or leave it out of the input",
    ),
    "binary": (["good.txt", "zero.txt"], "{base}/zero.txt is not text: byte 1 is zero; leave it out of the input"),
    "no key": (
        ["rows.jsonl", "--text-key", "x"],
        "{base}/rows.jsonl, line 1 has no key 'x' but text: name it with --text-key",
    ),
    "no JSON": (["broken.jsonl"], "{base}/broken.jsonl, line 3 is not one JSON object per line: Expecting value"),
    "no object": (
        ["list.jsonl"],
        "{base}/list.jsonl, line 1 has no text under 'text': each line is an object of strings",
    ),
    "surrogate": (["half.jsonl"], "{base}/half.jsonl, line 1: 'text' holds half of a surrogate pair, which is no text"),
    "no gzip": (["good.txt", "cut.txt.gz"], "{base}/cut.txt.gz is not a whole gzip file: "),
    "vocabulary": (
        ["good.txt", "good2.txt"],
        "the corpus yields at most 271 pieces, not 4096: give --vocab-size 271 or more text",
    ),
    "no model": (
        ["good.txt", "good2.txt", "--tokenizer", "good.txt"],
        "good.txt is not a sentencepiece model: ",
    ),
    "absent model": (
        ["good.txt", "good2.txt", "--tokenizer", "no.model"],
        "cannot read {base}/no.model: No such file or directory",
    ),
    "a file": (["good.txt", "good2.txt", "--out", "good.txt"], "--out good.txt is a file: name a directory"),
    "other shards": (
        ["good.txt", "good2.txt", "--out", "shards"],
        "shards holds train-00000.array_record but no manifest of it: choose another --out, or empty it",
    ),
    "no bos": (
        ["good.txt", "good2.txt", "--tokenizer", "nobos.model"],
        "nobos.model has no bos piece: give --no-add-bos and set add_bos: false",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path: Path, case: str) -> None:
    (tmp_path / "good.txt").write_text("good text\n")
    (tmp_path / "good2.txt").write_text("another good text\n")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"text\xff\n")
    (tmp_path / "zero.txt").write_bytes(b"a\0b")
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    (tmp_path / "broken.jsonl").write_text('{"text": "a"}\n\n{"text":\n')
    (tmp_path / "list.jsonl").write_text("[1]\n")
    (tmp_path / "half.jsonl").write_text('{"text": "\\ud800"}\n')
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"text " * 1000)[:-12])
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "train-00000.array_record").touch()
    if case == "no bos":
        model_without_bos(tmp_path / "nobos.model")
    arguments, message = BAD[case]
    done = prepare("--out", "out", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    progress, _, said = done.stderr.rpartition("prepare: ")
    assert said.startswith(message.format(base=tmp_path))
    assert said.count("\n") == 1
    assert all(SECONDS.search(line) for line in progress.splitlines()), "what takes longer than five seconds is said"
    assert done.stdout == ""
    assert not (tmp_path / "out" / "manifest.json").exists()
