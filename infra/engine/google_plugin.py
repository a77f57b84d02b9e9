"""Which provider plugin for Google's resources the engine gets: Google's own, or the stand-in, and the notice of it.

Owns: where the engine looks for the plugin, the environment in which it takes the one that was chosen, credentials, the
notices. Refuses to own: when a notice is due (infra/engine/wrapper.py knows the command and the stack), and which
version an executable has (plugin_version.py). Standard library only: it runs at every command.

An executable on PATH wins over an installed plugin, and an installed one counts only if its version equals the SDK's
(GetPluginPath and SelectCompatiblePlugin of the engine). So the stand-in is there only where Google's plugin is not,
last on PATH, or first where something else has the plugin's name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.engine import home, plugin_version
from infra.google_login import LOGIN_COMMAND
from infra.paths import ROOT

NAME = "gcp"
EXECUTABLE = f"pulumi-resource-{NAME}"
DIRECTORY = ROOT / "infra" / "standins"
CHOSEN = DIRECTORY / "google"  # its executable becomes Google's plugin, the one that PLUGIN names
PLUGIN, UNASKED = "SLIPWAY_GOOGLE_PLUGIN", "SLIPWAY_GOOGLE_UNASKED"
PLACEHOLDER_TOKEN = "placeholder-no-account"
_IGNORES_PATH = "PULUMI_IGNORE_AMBIENT_PLUGINS"
_CREDENTIALS = (
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GCLOUD_KEYFILE_JSON",
)
_GOOGLES_MACHINE = Path("/sys/class/dmi/id/product_name")


@dataclass(frozen=True)
class Choice:
    """official: Google's plugin, None where the stand-in serves. passed_over: a sentence on each other file."""

    official: Path | None
    passed_over: tuple[str, ...] = ()


def choose(environment: Mapping[str, str], version: str) -> Choice:
    """Asks whatever has the plugin's name, which takes a second or two the first time. version: of the SDK."""
    passed_over: list[str] = []
    for path in _candidates(environment, version):
        answer = plugin_version.version_of(path)
        if answer.version == version:
            return Choice(path, tuple(passed_over))
        passed_over.append(f"{path} is not Google's plugin {version}: {answer.sentence}; it is passed over")
    return Choice(None, tuple(passed_over))


def _candidates(environment: Mapping[str, str], version: str) -> Iterator[Path]:
    if environment.get(_IGNORES_PATH, "").lower() not in ("1", "true"):
        seen = set[Path]()
        for folder in _path(environment):
            executable = shutil.which(EXECUTABLE, path=folder)
            if executable and Path(executable).resolve() not in seen:
                seen.add(Path(executable).resolve())
                yield Path(executable)
    installed = home.pulumi_home(environment) / "plugins" / f"resource-gcp-v{version}"
    complete = not installed.with_name(installed.name + ".partial").exists()
    if complete and os.access(installed / EXECUTABLE, os.X_OK):
        yield installed / EXECUTABLE


def _path(environment: Mapping[str, str]) -> list[str]:
    """The folders on PATH, without our own."""
    parts = environment.get("PATH", os.defpath).split(os.pathsep)
    return [part for part in parts if part and Path(part) not in (DIRECTORY, CHOSEN)]


# --- the environment in which the engine takes the chosen one ---


def with_stand_in(environment: Mapping[str, str], first: bool = False) -> dict[str, str]:
    """The environment in which the engine finds the stand-in. first: something else on PATH has the plugin's name."""
    path = _path(environment)
    ordered = [str(DIRECTORY), *path] if first else [*path, str(DIRECTORY)]
    return _with_path(environment, ordered)


def with_official(environment: Mapping[str, str], plugin: Path) -> dict[str, str]:
    """The environment in which the engine starts this plugin, also where it would not choose it by itself."""
    return _with_path(environment, [str(CHOSEN), *_path(environment)]) | {PLUGIN: str(plugin)}


def _with_path(environment: Mapping[str, str], path: list[str]) -> dict[str, str]:
    """Sets PATH, and lets the engine look for plugins on it even if it was told not to."""
    rest = {name: value for name, value in environment.items() if name != _IGNORES_PATH}
    return rest | {"PATH": os.pathsep.join(path)}


def with_choice(environment: Mapping[str, str], choice: Choice) -> dict[str, str]:
    if choice.official is None:
        return with_stand_in(environment, first=bool(choice.passed_over))
    return with_official(environment, choice.official) if choice.passed_over else dict(environment)


# --- credentials ---


def with_placeholder_token(environment: Mapping[str, str]) -> dict[str, str]:
    """For a preview without credentials: gives those who ask for a token one that is plainly a placeholder."""
    return {**environment, "GOOGLE_OAUTH_ACCESS_TOKEN": PLACEHOLDER_TOKEN}


def without_asking_google(environment: Mapping[str, str], plugin: Path) -> dict[str, str]:
    """For a preview through Google's plugin without credentials, which would ask for minutes who it is."""
    return with_placeholder_token(with_official(environment, plugin)) | {UNASKED: "1"}


def has_credentials(environment: Mapping[str, str]) -> bool:
    """Whether Google's plugin and the engine would find any: both in Go, which reads $HOME and not CLOUDSDK_CONFIG.

    On a machine of Google's its metadata server gives them.
    """
    if any(environment.get(name) for name in _CREDENTIALS):
        return True
    directory = Path(environment["HOME"]) if environment.get("HOME") else home.user_home(environment)
    if (directory / ".config" / "gcloud" / "application_default_credentials.json").exists():
        return True
    return bool(environment.get("GCE_METADATA_HOST")) or _is_googles_machine(environment)


def _is_googles_machine(environment: Mapping[str, str]) -> bool:
    if environment.get("NO_GCE_CHECK", "").lower() == "true":  # Google's own switch
        return False
    try:
        return _GOOGLES_MACHINE.read_text().startswith("Google")
    except OSError:
        return False


# --- notices ---


def notice(version: str) -> str:
    return (
        "Google's own argument checks did not run: its plugin is not installed, so a stand-in previews, and"
        " which changes update or replace is its word, not Google's;"
        f" to install it: pulumi plugin install resource gcp {version}"
    )


UNASKED_NOTICE = (
    "Google was not asked: there are no credentials, so its plugin previews with a placeholder token;"
    f" to have some: {LOGIN_COMMAND}"
)
