"""Where Pulumi's engine keeps what it knows of its user: credentials, plugins, the selected stack.

Owns the paths, as the engine finds them (sdk/go/common/workspace/paths.go, creds.go and pkg/workspace/workspace.go):
its home is that of the password database, not $HOME, so a login made by one is found by the other. Standard library
only: it runs at every command.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast


def pulumi_home(environment: Mapping[str, str]) -> Path:
    chosen = environment.get("PULUMI_HOME")
    return Path(chosen) if chosen else user_home(environment) / ".pulumi"


def user_home(environment: Mapping[str, str]) -> Path:
    """$HOME only for a user without an entry, as in a container that runs under any number."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path(environment.get("HOME") or "/")


def credentials_path(environment: Mapping[str, str]) -> Path:
    folder = environment.get("PULUMI_CREDENTIALS_PATH")
    return (Path(folder) if folder else pulumi_home(environment)) / "credentials.json"


def selected_stack(environment: Mapping[str, str], directory: Path, project: str) -> str:
    """What `pulumi stack select` has chosen for the project in this directory; empty where nothing was, or is told."""
    shell = environment.get("PWD", "")  # the engine believes it where it is this directory, under a link's name
    here = Path(shell) if shell and Path(shell).exists() and Path(shell).samefile(Path.cwd()) else Path.cwd()
    named = next((folder for folder in (here, *here.parents) if folder.resolve() == directory.resolve()), directory)
    for folder in dict.fromkeys((named, directory)):
        digest = hashlib.sha1(str(folder / "Pulumi.yaml").encode(), usedforsecurity=False).hexdigest()
        path = pulumi_home(environment) / "workspaces" / f"{project}-{digest}-workspace.json"
        try:
            settings: Any = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # nothing selected, or a broken file, which is the engine's to explain
        if isinstance(settings, dict):
            return str(cast(dict[str, Any], settings).get("stack") or "")
    return ""
