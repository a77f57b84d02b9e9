"""What the provider's base promises, through the real engine: a sample resource over files stands for any resource."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.engine.project import Project, kill_engine, until


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.make(tmp_path / "project with a space")


def thing(project: Project, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"path": str(project.directory / name), "size": 1} | more


def providers_of(project: Project) -> list[psutil.Process]:
    def is_ours(process: psutil.Process) -> bool:
        try:
            return "tests.engine.sample.provider" in process.cmdline() and process.cwd() == str(project.directory)
        except psutil.Error:
            return False

    return [process for process in psutil.process_iter() if is_ours(process)]


def test_life_of_a_resource(project: Project) -> None:
    project.declare({"a": thing(project)})
    assert project.up().returncode == 0
    path = project.directory / "a"
    assert path.read_text() == '{"size": 1}'
    assert project.state()["a"]["id"] == str(path)
    second = project.run("preview", "--stack", "t", "--expect-no-changes")
    assert second.returncode == 0, second.stdout

    # Drift is seen without asking, and mended.
    path.write_text("broken")
    assert project.run("preview", "--stack", "t", "--expect-no-changes").returncode != 0
    assert project.up().returncode == 0
    assert path.read_text() == '{"size": 1}'
    path.unlink()
    assert project.up().returncode == 0
    assert path.exists()

    project.declare({"a": thing(project, size=2)})
    changed = project.run("up", "--yes", "--stack", "t")  # with its preview
    assert changed.returncode == 0, changed.stdout
    assert changed.stdout.count("[diff: ~size]") >= 2
    assert path.read_text() == '{"size": 2}'

    project.declare({"a": thing(project, name="b", size=2)})
    replaced = project.run("up", "--yes", "--stack", "t")
    assert replaced.returncode == 0, replaced.stdout
    assert "replace [diff: ~path]" in replaced.stdout
    assert not path.exists()
    assert (project.directory / "b").exists()

    assert project.run("destroy", "--yes", "--skip-preview", "--stack", "t").returncode == 0
    assert not (project.directory / "b").exists()
    assert project.state() == {}


def test_what_goes_wrong_is_one_sentence_and_the_state_has_what_exists(project: Project) -> None:
    project.declare({"a": thing(project, size="large", colour="red"), "b": thing(project, "b")})
    tried = project.run("preview", "--stack", "t")
    assert tried.returncode != 0
    assert "'size' is 'large', expected int" in tried.stdout
    assert "'colour' is not an input of sample:index:Thing" in tried.stdout

    for trouble, sentences in (
        ("refuse", [f"{project.directory / 'a'} is refused; ask for another"]),
        ("fault", ["fault in slipway (provider.py:", "KeyError: 'nobody expected this'"]),
    ):
        project.declare({"a": thing(project, trouble=trouble)})
        tried = project.up()
        assert tried.returncode != 0
        assert [sentence for sentence in sentences if sentence not in tried.stdout + tried.stderr] == []
        assert "Traceback" not in tried.stdout + tried.stderr
        assert project.state() == {}

    project.declare({"a": thing(project, trouble="fail")})
    tried = project.up()
    assert tried.returncode != 0
    assert "made, but it never became ready" in tried.stdout + tried.stderr
    assert project.state()["a"]["id"] == str(project.directory / "a"), "what exists keeps its id"
    assert project.run("destroy", "--yes", "--skip-preview", "--stack", "t").returncode == 0
    assert not (project.directory / "a").exists()


def test_progress_is_shown_and_the_timeout_of_the_engine_ends_a_create(project: Project) -> None:
    project.declare({"a": thing(project, gate=str(project.directory / "gate"), timeout="2s")})
    tried = project.up()
    assert tried.returncode != 0
    assert "waiting at the gate" in tried.stdout
    assert "not ready before its timeout" in tried.stdout + tried.stderr
    assert project.state()["a"]["id"] == str(project.directory / "a")


def test_ctrl_c_returns_with_the_id_stored(project: Project) -> None:
    project.declare({"a": thing(project, gate=str(project.directory / "gate"))})
    engine = project.start("up", "--yes", "--skip-preview", "--stack", "t")
    until(lambda: (project.directory / "a").exists(), "the create has begun")
    engine.send_signal(signal.SIGINT)
    assert engine.wait(timeout=900) != 0
    assert "stopped by Ctrl-C" in project.output()
    assert project.state()["a"]["id"] == str(project.directory / "a")


def test_provider_ends_with_a_killed_engine(project: Project) -> None:
    project.declare({"a": thing(project, gate=str(project.directory / "gate"))})
    engine = project.start("up", "--yes", "--skip-preview", "--stack", "t")
    until(lambda: (project.directory / "a").exists(), "the create has begun")
    assert providers_of(project)
    kill_engine(engine)
    until(lambda: not providers_of(project), "the provider has ended with its engine")

    (project.directory / "gate").touch()
    assert project.run("cancel", "--yes", "--stack", "t").returncode == 0
    assert project.up().returncode == 0
    assert project.state()["a"]["id"] == str(project.directory / "a")
