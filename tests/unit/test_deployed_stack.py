"""Verbs on a deployed stack: what they say where there is nothing to do, and what they leave alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra import paths
from infra.commands.main import app
from infra.paths import STACKS, StackPaths
from infra.stack_file import settings as stack_settings
from infra.targets.local import host_directory
from infra.targets.local.host_directory import HostRecord
from training.host_status import HostStatus, Phase, write_status

STACK = "local.try"


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StackPaths:
    """A stack of target local whose hosts and runs are here."""
    stacks = tmp_path / "stacks"
    stacks.mkdir()
    shutil.copy(STACKS / "Pulumi.local.yaml", stacks / f"Pulumi.{STACK}.yaml")
    monkeypatch.setattr(paths, "STACKS", stacks)
    monkeypatch.setattr(stack_settings, "STACKS", stacks)
    monkeypatch.setattr(paths, "of_stack", lambda stack: StackPaths(tmp_path / stack))  # pyright: ignore
    return StackPaths(tmp_path / STACK)


@pytest.fixture
def finished(stack: StackPaths) -> StackPaths:
    """One host, which has trained to the end."""
    directory = stack.host(0)
    directory.mkdir(parents=True)
    record = HostRecord(0, 1, "127.0.0.1:1", "artifacts", "0" * 16, "installed", "cache")
    (directory / host_directory.RECORD).write_text(json.dumps(asdict(record)))
    write_status(directory, HostStatus(Phase.FINISHED, started=1.0, updated=2.0, step=400, steps=400, loss=2.5))
    return stack


def slipway(*words: str, answer: str = "") -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words), input=answer)
    return done.exit_code, done.output


def test_what_is_not_deployed_says_how_to_deploy_it(stack: StackPaths) -> None:
    assert slipway("status", STACK) == (
        0,
        f"{STACK}: absent\n  nothing is deployed; start it with: make up STACK={STACK}\n",
    )
    assert slipway("start", STACK) == (
        2,
        f"error: stack '{STACK}' has no hosts; start them with: make up STACK={STACK}\n",
    )
    assert slipway("stop", STACK) == (2, f"error: nothing of stack '{STACK}' is running\n")
    assert slipway("logs", STACK) == (
        2,
        f"error: stack '{STACK}' has no host 0; there are: none; run `pulumi up` first\n",
    )
    assert slipway("watch", STACK) == (1, f"stack '{STACK}' has no hosts; start them with: make up STACK={STACK}\n")
    assert slipway("purge", STACK) == (0, f"{STACK}: nothing is kept\n")
    assert not stack.root.exists(), "nothing was made by asking"


def test_what_has_finished_is_shown_and_cannot_be_stopped(finished: StackPaths) -> None:
    code, said = slipway("status", STACK)
    assert (code, said) == (0, f"{STACK}: finished, step 400 of 400\n  host 0 · finished · step 400/400 · loss 2.500\n")
    assert slipway("stop", STACK) == (2, f"error: nothing of stack '{STACK}' is running\n")


def test_purge_of_what_is_deployed_deletes_nothing(finished: StackPaths) -> None:
    (finished.runs / "mine").mkdir(parents=True)
    code, said = slipway("purge", STACK, "--yes")
    assert (code, said) == (2, f"error: stack '{STACK}' is still deployed; first run: make destroy STACK={STACK}\n")
    assert (finished.runs / "mine").is_dir()


def test_purge_asks_with_the_runs_names_and_takes_no_for_an_answer(stack: StackPaths) -> None:
    for run in ("mine", "other"):
        (stack.runs / run).mkdir(parents=True)
    code, said = slipway("purge", STACK, answer="n\n")
    assert (code, said.startswith(f"delete {stack.runs} (mine, other)? ")) == (1, True), said
    assert sorted(path.name for path in stack.runs.iterdir()) == ["mine", "other"]
    code, said = slipway("purge", STACK, answer="y\n")
    assert (code, said.endswith(f"{STACK}: deleted mine, other\n")) == (0, True), said
    assert not stack.runs.exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, f"stack '{STACK}' has no file stacks/Pulumi.{STACK}.yaml"),
        ("config: {slipway:steps: 1}", f"in stacks/Pulumi.{STACK}.yaml; write `slipway:target:` and one of: local"),
        ("config: {slipway:target: moon}", f"target is 'moon' in stacks/Pulumi.{STACK}.yaml"),
        ("config: [", f"stacks/Pulumi.{STACK}.yaml is not YAML"),
    ],
)
def test_a_stack_whose_target_cannot_be_read_is_one_sentence(
    stack: StackPaths, text: str | None, sentence: str
) -> None:
    file = paths.stack_file(STACK)
    file.unlink() if text is None else file.write_text(text)
    code, said = slipway("status", STACK)
    assert (code, said.startswith("error: "), said.count("\n")) == (2, True, 1)
    assert sentence in said


def test_a_mistake_in_another_key_does_not_hide_the_hosts(finished: StackPaths) -> None:
    file = paths.stack_file(STACK)
    file.write_text(file.read_text() + "  slipway:stepps: 1\n")
    assert slipway("status", STACK)[1].startswith(f"{STACK}: finished, ")
