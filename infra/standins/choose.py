"""Whether Google's provider plugin is here, and the environment in which the engine finds the stand-in if it is not.

Owns: where the engine looks for the plugin, the notice that the stand-in is at work, the placeholder token. Refuses to
own: when to say so (engine.py knows the command and the stack). Standard library only: it runs at every command.

An executable on PATH wins over an installed plugin, and an installed one counts only if its version equals the SDK's
(GetPluginPath and SelectCompatiblePlugin of the engine), so the stand-in comes last on PATH and only where neither is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

EXECUTABLE = "pulumi-resource-gcp"
DIRECTORY = Path(__file__).resolve().parent
PLACEHOLDER_TOKEN = "placeholder-no-account"
_CREDENTIALS = (
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GCLOUD_KEYFILE_JSON",
)


def official_plugin(environment: Mapping[str, str], version: str) -> Path | None:
    """The plugin that the engine would start: on PATH, or installed in the version of the SDK."""
    others = [part for part in environment.get("PATH", os.defpath).split(os.pathsep) if Path(part) != DIRECTORY]
    if on_path := shutil.which(EXECUTABLE, path=os.pathsep.join(others)):
        return Path(on_path)
    home = environment.get("PULUMI_HOME") or Path(environment.get("HOME") or "/", ".pulumi")
    installed = Path(home, "plugins", f"resource-gcp-v{version}")
    complete = not installed.with_name(installed.name + ".partial").exists()
    return installed / EXECUTABLE if complete and os.access(installed / EXECUTABLE, os.X_OK) else None


def with_stand_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with the stand-in last on PATH."""
    path = [part for part in environment.get("PATH", os.defpath).split(os.pathsep) if Path(part) != DIRECTORY]
    return {**environment, "PATH": os.pathsep.join([*path, str(DIRECTORY)])}


def finds_stand_in(environment: Mapping[str, str]) -> bool:
    return str(DIRECTORY) in environment.get("PATH", "").split(os.pathsep)


def with_placeholder_token(environment: Mapping[str, str]) -> dict[str, str]:
    """For a preview through the stand-in only: what asks for a token gets one that says itself what it is."""
    if has_credentials(environment):
        return dict(environment)
    return {**environment, "GOOGLE_OAUTH_ACCESS_TOKEN": PLACEHOLDER_TOKEN}


def has_credentials(environment: Mapping[str, str]) -> bool:
    """Whether Google's clients would find any, a metadata server aside."""
    if any(environment.get(name) for name in _CREDENTIALS):
        return True
    folder = environment.get("CLOUDSDK_CONFIG") or Path(environment.get("HOME") or "/", ".config", "gcloud")
    return Path(folder, "application_default_credentials.json").exists()


def notice(version: str) -> str:
    return (
        "note: Google's own argument checks did not run: its plugin is not installed, so a stand-in previews;"
        f" to install it: pulumi plugin install resource gcp {version}"
    )
