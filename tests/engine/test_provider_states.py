"""What a state keeps of a resource: where it was made and by which release; nothing is touched elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.project import Project
from tests.engine.provider_client import Provider, provider

ENDPOINT = "THINGS_ENDPOINT"
EMULATOR = "http://127.0.0.1:1"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.declare({"a": thing(project)})
    return project


def thing(project: Project, **more: Any) -> dict[str, Any]:
    return {"path": str(project.directory / "a"), "size": 1} | more


def said(project: Project, *arguments: str) -> str:
    """What a command that fails has printed, its lines joined."""
    done = project.run(*arguments, "--stack", "t")
    assert done.returncode != 0, done.stdout
    return " ".join((done.stdout + done.stderr).split())


def test_what_was_made_at_the_real_service_is_not_touched_at_an_emulator(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`destroy` said "6 deleted" at an emulator, and the node ran on."""
    assert project.up().returncode == 0
    assert project.state()["a"]["outputs"]["service"] == "things.example.com"
    monkeypatch.setenv(ENDPOINT, EMULATOR)
    for verb in ("destroy", "refresh", "up"):
        assert (
            f"a ({project.directory}/a) was made at things.example.com, but {EMULATOR} would be asked now: it was not "
            f"touched, and may be running and billed; run `unset {ENDPOINT}`, then the same command again"
        ) in said(project, verb, "--yes", "--skip-preview")
        assert (project.directory / "a").exists()
    assert project.state()["a"]["outputs"]["service"] == "things.example.com"
    monkeypatch.delenv(ENDPOINT)
    assert project.run("destroy", "--yes", "--stack", "t").returncode == 0
    assert not (project.directory / "a").exists()


def test_who_answers_is_said_and_the_way_back_to_the_real_service_is_closed_too(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the engine was not started by our wrapper, which says it first."""
    project.declare({"a": thing(project), "b": {"path": str(project.directory / "b"), "size": 1, "after": ["a"]}})
    monkeypatch.setenv(ENDPOINT, EMULATOR)
    notice = f"warning: {ENDPOINT} is {EMULATOR}: that server answers, not things.example.com"
    assert notice in project.run("preview", "--stack", "t").stdout
    assert project.up().returncode == 0
    monkeypatch.delenv(ENDPOINT)
    told = said(project, "preview")
    assert (
        f"was made at {EMULATOR}, but things.example.com would be asked now: it was not touched; run `export "
        f"{ENDPOINT}={EMULATOR}`, with that emulator running, then the same command again; if it is gone for good, it "
        f"goes from the state with what depends on it by: pulumi state delete"
    ) in told
    advised = re.search(r"pulumi (state delete --stack t --target-dependents) '(urn:\S+::a)'", told)
    assert advised
    monkeypatch.setenv(ENDPOINT, EMULATOR)
    assert notice in project.run("preview", "--stack", "t").stdout
    monkeypatch.delenv(ENDPOINT)
    deleted = project.run(*advised[1].split(), advised[2], "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert project.state() == {}


def _as_of_0_1_0(resource: dict[str, Any]) -> None:
    for key in ("service", "state_version"):
        del resource["outputs"][key]


def test_a_state_that_does_not_say_where_is_believed_only_where_the_thing_is_there(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert project.up().returncode == 0
    project.edit_state(_as_of_0_1_0)
    monkeypatch.setenv(ENDPOINT, EMULATOR)
    (project.directory / "a").rename(project.directory / "elsewhere")  # at the real service
    refused = said(project, "destroy", "--yes", "--skip-preview")
    assert "was made at things.example.com (as far as is known), but" in refused
    assert "a" in project.state()
    (project.directory / "elsewhere").rename(project.directory / "a")
    assert project.run("destroy", "--yes", "--stack", "t").returncode == 0
    assert project.state() == {}


def test_an_input_that_is_newer_than_the_state_and_has_its_default_is_no_change(project: Project) -> None:
    """An upgrade of Slipway would have replaced live slices. An optional input may be left out and given."""
    assert project.up().returncode == 0
    project.declare({"a": thing(project, note="n", parts=[{"a": 1}])})
    assert project.up().returncode == 0
    assert project.state()["a"]["inputs"]["note"] == "n"
    project.declare({"a": thing(project)})
    assert "[diff: ~note,parts]" in project.run("preview", "--stack", "t").stdout
    assert project.up().returncode == 0

    def before_there_was_paint(resource: dict[str, Any]) -> None:
        for side in ("inputs", "outputs"):
            for key in ("paint", "parts"):
                resource[side].pop(key, None)

    project.edit_state(before_there_was_paint)
    program = project.directory / "things.json"
    program.write_text(program.read_text().replace('"size": 1', '"size": 1, "paint": "grey", "parts": []'))
    unchanged = project.run("preview", "--stack", "t", "--expect-no-changes")
    assert unchanged.returncode == 0, unchanged.stdout
    project.declare({"a": thing(project, paint="red")})
    assert "replace" in project.run("preview", "--stack", "t").stdout


def test_a_state_of_a_newer_release_is_left_alone(project: Project) -> None:
    assert project.up().returncode == 0

    def newer(resource: dict[str, Any]) -> None:
        resource["outputs"]["state_version"] = 99

    project.edit_state(newer)
    assert (
        "a was written by a newer Slipway (state version 99, this one knows 2); update this clone, then run it again"
        in said(project, "destroy", "--yes", "--skip-preview")
    )
    assert (project.directory / "a").exists()


@pytest.fixture(scope="module")
def sample() -> Iterator[Provider]:
    with provider("tests.engine.sample.provider") as one:
        yield one


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"note": 3}, "'note' is 3, expected str | None"),
        ({"parts": [{"a": "b"}]}, "'parts' is [{'a': 'b'}], expected list[dict[str, int]]"),
        ({"parts": ["a"]}, "'parts' is ['a'], expected list[dict[str, int]]"),
        ({"size": 1.5}, "'size' is 1.5, expected int"),
        ({"size": True}, "'size' is True, expected int"),
        ({"trouble": "check"}, "KeyError: 'nobody expected this'; `--debug` shows the trace"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_whatever_is_wrong_with_inputs_is_a_sentence(sample: Provider, inputs: dict[str, Any], sentence: str) -> None:
    (told,) = sample.check("sample:index:Thing", {"path": "/a", "size": 1} | inputs)
    assert sentence in told
    assert "Traceback" not in told
