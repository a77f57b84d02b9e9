"""What `slipway` says of a stack whose hosts are in a cloud, on a machine without one: a sentence with the way on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.engine.clone import Clone, said

STACK = "v6e-8"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    yield Clone.make(tmp_path_factory.mktemp("clone") / "tpu")


@pytest.mark.parametrize("verb", ["logs", "stop", "start", "purge"])
def test_what_is_not_offered_is_said_before_anybody_is_asked(clone: Clone, verb: str) -> None:
    done = clone.run("slipway", verb, STACK)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: the target of stack 'v6e-8' does not offer `{verb}` (docs/runbook.md)\n"


@pytest.mark.parametrize("verb", ["watch", "status"])
def test_hosts_are_asked_for_where_they_are(clone: Clone, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    done = clone.run("slipway", verb, STACK)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot list the nodes of projects/my-project/locations/-: "), said(done)
    assert "run `gcloud auth application-default login`" in done.stderr


def test_gc_of_a_stack_is_of_the_bucket_that_its_hosts_read(clone: Clone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere.json")
    done = clone.run("slipway", "gc", STACK)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: cannot open gs://slipway-artifacts-us-east5-my-project: "), said(done)
    assert "run `gcloud auth application-default login`" in done.stderr


def test_stray_file_among_the_patches_is_a_sentence_of_the_preview(clone: Clone) -> None:
    """The incident: a file browser left its own file there, and every command on a stack ended in a traceback."""
    (patches,) = (path for path in (clone.directory / "training" / "patches").iterdir() if path.is_dir())
    stray = patches / ".DS_Store"
    stray.write_bytes(b"\0\0\0\1Bud1")
    try:
        done = clone.run("slipway", "preview", STACK)
        table = clone.run("slipway", "preview", "--all")
    finally:
        stray.unlink()
    sentence = (
        f"training/patches/{patches.name} has .DS_Store, which is no patch named NNNN-why.patch; rename or remove it"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {sentence}\n")
    assert f"{STACK}: error: {sentence}\n" in table.stdout, said(table)


def test_push_of_a_stack_is_of_the_wheelhouse_that_its_preview_names(clone: Clone, tmp_path: Path) -> None:
    path = clone.directory / "stacks" / "Pulumi.v6e-8.overlaid.yaml"
    document = yaml.safe_load((clone.directory / "stacks" / f"Pulumi.{STACK}.yaml").read_text())
    document["config"]["slipway:overlay"] = str(tmp_path)
    path.write_text(yaml.safe_dump(document))
    done = clone.run("slipway", "wheels", "push", "v6e-8.overlaid")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"overlay {tmp_path} holds no wheel" in done.stderr, said(done)
    assert "Traceback" not in done.stderr
