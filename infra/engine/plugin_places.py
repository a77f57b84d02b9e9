"""Where the engine looks for a provider plugin, and an environment in which it finds another one first.

Owns the engine's rules (GetPluginPath and SelectCompatiblePlugin): an executable on PATH wins over an installed plugin,
and of the installed ones it takes the version that the SDK names, else the newest. Refuses to own which one is wanted
(google_plugin.py, kubernetes_plugin.py). Standard library only: it runs at every command.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.engine import home

_IGNORES_PATH = "PULUMI_IGNORE_AMBIENT_PLUGINS"


@dataclass(frozen=True)
class Choice:
    """official: the plugin itself, None where the stand-in serves. passed_over: a sentence on each other file."""

    official: Path | None
    passed_over: tuple[str, ...] = ()


def executable(name: str) -> str:
    return f"pulumi-resource-{name}"


def on_path(environment: Mapping[str, str], name: str, ours: Collection[Path]) -> Iterator[Path]:
    """Each file of the plugin's name once, in the engine's order, without those in our own folders."""
    if environment.get(_IGNORES_PATH, "").lower() in ("1", "true"):
        return
    seen = set[Path]()
    for folder in path_without(environment, ours):
        found = shutil.which(executable(name), path=folder)
        if found and Path(found).resolve() not in seen:
            seen.add(Path(found).resolve())
            yield Path(found)


def installed(environment: Mapping[str, str], name: str, version: str) -> Path | None:
    """The executable of one version, where all of it is there."""
    folder = home.pulumi_home(environment) / "plugins" / f"resource-{name}-v{version}"
    complete = not folder.with_name(folder.name + ".partial").exists()
    found = folder / executable(name)
    return found if complete and os.access(found, os.X_OK) else None


def newest_installed(environment: Mapping[str, str], name: str) -> Path | None:
    prefix = f"resource-{name}-v"
    folders = (home.pulumi_home(environment) / "plugins").glob(f"{prefix}*")
    versions = [folder.name.removeprefix(prefix) for folder in folders if not folder.name.endswith(".partial")]
    for version in sorted(versions, key=_order, reverse=True):
        if found := installed(environment, name, version):
            return found
    return None


def _order(version: str) -> tuple[list[int], bool]:
    """A pre-release comes before its release."""
    release, _, early = version.partition("-")
    return [int(part) for part in re.findall(r"\d+", release)], not early


def path_without(environment: Mapping[str, str], ours: Collection[Path]) -> list[str]:
    """The folders on PATH, without our own."""
    parts = environment.get("PATH", os.defpath).split(os.pathsep)
    return [part for part in parts if part and Path(part) not in ours]


def with_path(environment: Mapping[str, str], path: list[str]) -> dict[str, str]:
    """Sets PATH, and lets the engine look for plugins on it even if it was told not to."""
    rest = {name: value for name, value in environment.items() if name != _IGNORES_PATH}
    return rest | {"PATH": os.pathsep.join(path)}


def with_stand_in(
    environment: Mapping[str, str], directory: Path, ours: Collection[Path], first: bool
) -> dict[str, str]:
    """The environment in which the engine finds a stand-in. first: something else on PATH has the plugin's name."""
    path = path_without(environment, ours)
    return with_path(environment, [str(directory), *path] if first else [*path, str(directory)])
