"""Anything in Google's place says so first, with or without --stack, and leaves standard output to its readers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.clone import Clone, said

FOUNDATION = "foundation.us-central1"
VARIABLES = {
    "SLIPWAY_TPU_ENDPOINT": "http://127.0.0.1:1",
    "STORAGE_EMULATOR_HOST": "http://127.0.0.1:2",
    "SLIPWAY_STANDIN_STATE": "/nowhere",
}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("emulated") / "clone")


@pytest.fixture(autouse=True)
def emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


def notes(stderr: str) -> list[str]:
    """The variable, or the first words, of each leading note."""
    return [line.split()[1] for line in stderr.splitlines() if line.startswith("note: ")]


def select(clone: Clone, stack: str) -> None:
    done = clone.run("pulumi", "stack", "select", stack, "--create")
    assert done.returncode == 0, said(done)


def test_preview_of_the_selected_stack_says_it_and_prints_json_alone(clone: Clone) -> None:
    select(clone, FOUNDATION)
    done = clone.run("pulumi", "preview", "--json", "--non-interactive")
    assert done.returncode == 0, said(done)
    assert notes(done.stderr) == ["STORAGE_EMULATOR_HOST", "SLIPWAY_STANDIN_STATE", "Google's"]
    assert json.loads(done.stdout)["changeSummary"]["create"] > 1


def test_stack_commands_say_what_the_selected_stack_could_use(clone: Clone) -> None:
    for stack, expected in (
        ("v6e-8", ["SLIPWAY_TPU_ENDPOINT", "STORAGE_EMULATOR_HOST"]),
        ("local", []),
    ):
        select(clone, stack)
        output = clone.run("pulumi", "stack", "output", "--json")
        assert (output.stdout, notes(output.stderr)) == ("{}\n", expected), said(output)
        named = clone.run("pulumi", "stack", "output", "--json", "--stack", FOUNDATION)
        assert notes(named.stderr) == ["STORAGE_EMULATOR_HOST", "SLIPWAY_STANDIN_STATE"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("wheels push gs://bucket", ["STORAGE_EMULATOR_HOST"]),
        ("wheels push v6e-8 none", ["STORAGE_EMULATOR_HOST"]),
        ("wheels push directory", []),
        ("orphans", ["SLIPWAY_TPU_ENDPOINT"]),
        ("orphans --help", []),
        ("hardware", []),
    ],
)
def test_day_2_command_says_what_it_asks_that_is_not_google(clone: Clone, command: str, expected: list[str]) -> None:
    if command.startswith("wheels push v6e-8"):
        path = clone.directory / "stacks" / "Pulumi.v6e-8.yaml"
        path.write_text(path.read_text() + "  slipway:overlay: /nowhere\n")  # stops before anything is built
    done = clone.run("slipway", *command.split())
    assert notes(done.stderr) == expected, said(done)
    if expected:
        assert done.stderr.startswith("note: ")
    assert "note: " not in done.stdout
