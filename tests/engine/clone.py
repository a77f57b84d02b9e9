"""A second clone of the working tree, so that tests drive the real commands without touching this clone's stacks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.training.cluster import COMPILED
from tests.tree_copy import ROOT, copy_tree

# A model of a few thousand parameters: the road is under test, not the model.
TINY: dict[str, Any] = {
    "base_emb_dim": 32,
    "base_mlp_dim": 64,
    "base_num_decoder_layers": 1,
    "base_num_query_heads": 2,
    "base_num_kv_heads": 2,
    "head_dim": 16,
    "max_target_length": 64,
}
_SALT = yaml.safe_load((ROOT / "stacks" / "Pulumi.local.yaml").read_text())["encryptionsalt"]


@dataclass(frozen=True)
class Clone:
    """A clone with the environment of this one and its hosts' environments; compiled programs are all clones'."""

    directory: Path

    @classmethod
    def make(cls, directory: Path) -> Clone:
        copy_tree(directory, ("artifacts", "installed", "pythons"))
        programs = directory / ".slipway" / "cache" / "jax"
        programs.parent.mkdir()
        (COMPILED / "jax").mkdir(parents=True, exist_ok=True)
        programs.symlink_to(COMPILED / "jax")
        return cls(directory)

    def stack(self, name: str, training: dict[str, Any] | None = None, **settings: Any) -> None:
        """Write a stack file of two hosts x two devices."""
        values = {"target": "local", "accelerator": "cpu-8", "data": "synthetic", "steps": 20} | settings
        values["data_options"] = {"vocab_size": 512} | values.get("data_options", {})
        fields = TINY | {"ici_data_parallelism": 2, "ici_fsdp_parallelism": 4} | (training or {})
        config = {f"slipway:{key}": value for key, value in values.items()} | {"slipway:training": fields}
        path = self.directory / "stacks" / f"Pulumi.{name}.yaml"
        path.write_text(yaml.safe_dump({"encryptionsalt": _SALT, "config": config}))

    @property
    def environment(self) -> dict[str, str]:
        chosen = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_")}
        return chosen | {
            "PYTHONPATH": str(self.directory),
            "PULUMI_HOME": str(self.directory / ".slipway" / "pulumi-home"),
        }

    def command(self, tool: str, *arguments: str) -> list[str]:
        return [str(self.directory / ".venv" / "bin" / tool), *arguments]

    def run(self, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._run(self.command(tool, *arguments))

    def make_goal(self, goal: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`make` without its `setup`, which would make anew the environment that is shared with this tree."""
        return self._run(["make", "-o", "setup", goal, *arguments])

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )

    def pulumi(self, verb: str, stack: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        sure = ("--yes", "--skip-preview") if verb in ("up", "destroy") else ()
        return self.run("pulumi", verb, "--stack", stack, *sure, *arguments)

    def status(self, stack: str) -> dict[str, Any]:
        return json.loads(self.run("slipway", "status", stack, "--json").stdout)

    def resources(self, stack: str) -> list[dict[str, Any]]:
        """In the state, as the engine's file backend keeps it; `pulumi stack export` says the same and takes longer."""
        file = self._states / "slipway" / f"{stack}.json"
        if not file.exists():
            return []
        return json.loads(file.read_text())["checkpoint"]["latest"].get("resources") or []

    def forget(self) -> None:
        """As if no stack had ever been deployed from here."""
        shutil.rmtree(self._states, ignore_errors=True)

    def keep_states(self, folder: Path) -> None:
        """What is deployed from here, for `take_states`: two clones of the same files are one with two states."""
        shutil.copytree(self._states, folder)

    def take_states(self, folder: Path) -> None:
        self.forget()
        shutil.copytree(folder, self._states)

    @property
    def _states(self) -> Path:
        return self.directory / ".slipway" / "state" / ".pulumi" / "stacks"

    def work(self, stack: str) -> Path:
        return self.directory / ".slipway" / stack


def said(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout + done.stderr
