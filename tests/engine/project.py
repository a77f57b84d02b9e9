"""A throwaway Pulumi project around the sample provider, driven by the real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.training.cluster import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
ENGINE = Path((ROOT / ".venv" / "engine-path").read_text().strip())

_PROGRAM = """
import json, os, pathlib, pulumi, signal
signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))  # as infra/program.py does
made = {}
for name, props in json.loads(pathlib.Path("things.json").read_text()).items():
    timeouts = pulumi.CustomTimeouts(create=props.pop("timeout", "60s"))
    after = [made[each] for each in props.pop("after", [])]
    options = pulumi.ResourceOptions(custom_timeouts=timeouts, depends_on=after)
    made[name] = pulumi.CustomResource("sample:index:Thing", name, props | {"seen": None}, options)
"""


def until(condition: Callable[[], Any], what: str) -> Any:
    """Poll until true; fail with `what` after the deadline."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not seen within {PATIENCE_S:.0f}s: {what}")


@dataclass(frozen=True)
class Project:
    """A project directory with a file backend of its own."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Project:
        directory.mkdir(parents=True, exist_ok=True)
        plugin = directory / "plugin"
        plugin.mkdir()
        entry = plugin / "pulumi-resource-sample"
        entry.write_text(
            f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -u -m tests.engine.sample.provider "$@"\n'
        )
        entry.chmod(0o755)
        (directory / "state").mkdir()
        (directory / "Pulumi.yaml").write_text(
            "name: sample\nruntime: python\nplugins: {providers: [{name: sample, path: plugin}]}\n"
        )
        (directory / "__main__.py").write_text(_PROGRAM)
        (directory / "pip.py").symlink_to(ROOT / "infra" / "pip.py")  # the engine's Python host asks it
        project = cls(directory)
        project.declare({})
        made = project.run("stack", "init", "t")
        assert made.returncode == 0, made.stderr
        return project

    def declare(self, things: dict[str, dict[str, Any]]) -> None:
        (self.directory / "things.json").write_text(json.dumps(things))

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), str(ENGINE), os.environ["PATH"]])
        return os.environ | {
            "PATH": path,
            "PULUMI_BACKEND_URL": f"file://{self.directory / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "GOGC": "800",  # as our wrapper has it
            "PULUMI_HOME": str(self.directory / "home"),
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(arguments), cwd=self.directory, env=self.environment, capture_output=True, text=True
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start without waiting; its output goes to `output` in the project."""
        with (self.directory / "output").open("w") as output:
            return subprocess.Popen(
                self._command(arguments),
                cwd=self.directory,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def output(self) -> str:
        return (self.directory / "output").read_text()

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run("up", "--yes", "--skip-preview", "--stack", "t", *arguments)

    def state(self) -> dict[str, dict[str, Any]]:
        """The sample resources in the state, by name."""
        return {r["urn"].split("::")[-1]: r for r in self._resources(self._read_state())}

    def edit_state(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """Change every resource of the sample provider in the state, as another release would have written it."""
        state = self._read_state()
        for resource in self._resources(state):
            edit(resource)
        self._state_file.write_text(json.dumps(state))

    @property
    def _state_file(self) -> Path:
        return self.directory / "state" / ".pulumi" / "stacks" / "sample" / "t.json"

    def _read_state(self) -> dict[str, Any]:
        """As the engine's file backend keeps it: `pulumi stack export` says the same and takes a second longer."""
        return json.loads(self._state_file.read_text())

    @staticmethod
    def _resources(state: dict[str, Any]) -> list[dict[str, Any]]:
        resources = state["checkpoint"]["latest"].get("resources") or []
        return [resource for resource in resources if resource["type"] == "sample:index:Thing"]

    def _command(self, arguments: tuple[str, ...]) -> list[str]:
        return [str(ENGINE / "pulumi"), *arguments, "--non-interactive"]


def kill_engine(engine: subprocess.Popen[str]) -> None:
    """kill -9 of the engine alone, as the kernel's out-of-memory killer would."""
    engine.send_signal(signal.SIGKILL)
    engine.wait()
