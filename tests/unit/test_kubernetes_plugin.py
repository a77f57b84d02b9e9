"""Which plugin for Kubernetes the engine gets, Pulumi's or the stand-in, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from infra.engine import ask_plugin_version, command_line, kubernetes_plugin, plugin_version, wrapper
from infra.engine.kubernetes_plugin import DIRECTORY, EXECUTABLE
from infra.engine.plugin_places import Choice
from infra.paths import TOOLS
from infra.standins.kubernetes import official

NOTICE = "note: a stand-in applies what is declared in Kubernetes, since Pulumi's own plugin is not installed; it asks"


class Machine:
    """Files of the plugin's name, whose answers commands before have got, so that none is started."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.memory = directory / "memory.json"
        self._answers: dict[str, object] = {}

    def put(self, folder: str, version: str) -> Path:
        path = self.directory / folder / EXECUTABLE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\nexit 1\n")
        path.chmod(0o755)
        stamp = [path.stat().st_mtime_ns, path.stat().st_size]
        said = f"it answers as version {version}"
        self._answers[str(path)] = {"stamp": stamp, "version": version, "sentence": said}
        self.memory.write_text(json.dumps(self._answers))
        return path

    def environment(self, *folders: Path) -> dict[str, str]:
        path = ":".join([*(str(folder) for folder in folders), "/usr/bin"])
        return {"PATH": path, "PULUMI_HOME": str(self.directory), "HOME": str(self.directory)}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setattr(plugin_version, "_MEMORY", found.memory)
    return found


def test_stand_in_serves_and_says_so_where_a_stack_may_declare_something_in_kubernetes(machine: Machine) -> None:
    ready = wrapper.Start(Path("/e/pulumi"), machine.environment(), ("note: before",))
    for verb in ("preview", "up", "refresh", "destroy", "import"):
        begun = wrapper.with_kubernetes(command_line.parse([verb]), ready, "")  # a stack that cannot be told
        assert begun.notices[0] == "note: before"
        assert begun.notices[1].startswith(NOTICE)
        assert f"pulumi plugin install resource kubernetes {official.VERSION}" in begun.notices[1]
        assert begun.environment["PATH"] == f"/usr/bin:{DIRECTORY}:{TOOLS}", "a kubeconfig may log in by `slipway`"
    for verb, target in (("up", "local"), ("up", "tpu-vm"), ("stack", "")):
        stack = f"config:\n  slipway:target: {target}\n" if target else ""
        assert wrapper.with_kubernetes(command_line.parse([verb]), ready, stack) == ready


def test_newest_plugin_that_is_installed_is_the_one_that_the_engine_takes(machine: Machine) -> None:
    machine.put("plugins/resource-kubernetes-v4.9.0", "4.9.0")
    machine.put("plugins/resource-kubernetes-v4.33.0-beta.1", "4.33.0-beta.1")
    newest = machine.put("plugins/resource-kubernetes-v4.33.0", "4.33.0")
    machine.put("plugins/resource-kubernetes-v4.40.0", "4.40.0")
    (machine.directory / "plugins/resource-kubernetes-v4.40.0.partial").touch()
    environment = machine.environment()
    choice = kubernetes_plugin.choose(environment)
    assert choice == Choice(newest)
    assert kubernetes_plugin.with_choice(environment, choice) == environment
    assert kubernetes_plugin.notices(choice) == ()


def test_what_is_not_the_plugin_is_passed_over_by_name(machine: Machine) -> None:
    clones = machine.put("clone", official.STAND_IN_VERSION)
    environment = machine.environment(clones.parent)
    choice = kubernetes_plugin.choose(environment)
    assert choice.official is None
    assert choice.passed_over[0].startswith(f"{clones} is not Pulumi's plugin kubernetes 4: it answers as version ")
    assert kubernetes_plugin.with_choice(environment, choice)["PATH"] == f"{DIRECTORY}:{clones.parent}:/usr/bin"
    installed = machine.put("plugins/resource-kubernetes-v4.33.0", "4.33.0")
    choice = kubernetes_plugin.choose(environment)
    assert choice.official == installed
    first = kubernetes_plugin.with_choice(environment, choice)["PATH"].split(":")[0]
    assert first == str(installed.parent)


def test_another_major_version_is_another_plugin(machine: Machine) -> None:
    machine.put("plugins/resource-kubernetes-v5.0.0", "5.0.0")
    assert kubernetes_plugin.choose(machine.environment()).official is None


def test_stand_in_says_of_itself_that_it_is_one() -> None:
    answer = ask_plugin_version.ask(str(DIRECTORY / EXECUTABLE), 60.0)
    assert answer["version"] == official.STAND_IN_VERSION
    assert not kubernetes_plugin.is_official(answer["version"])
