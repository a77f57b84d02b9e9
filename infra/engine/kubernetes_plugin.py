"""Which provider plugin for Kubernetes the engine gets: Pulumi's own, or the stand-in, and the notice of it.

Owns the choice, the environment in which the engine takes what was chosen, the notice. Refuses to own when a notice is
due (infra/engine/wrapper.py knows the command and the stack). Standard library only: it runs at every command.

Programs here declare by type tokens and name no version, so every release of the same major version will do.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from infra.engine import plugin_places, plugin_version
from infra.engine.plugin_places import Choice
from infra.paths import ROOT
from infra.standins.kubernetes import official

NAME = "kubernetes"
EXECUTABLE = plugin_places.executable(NAME)
DIRECTORY = ROOT / "infra" / "standins" / "kubernetes"
INSTALL = f"pulumi plugin install resource {NAME} {official.VERSION}"
NOTICE = (
    "a stand-in applies what is declared in Kubernetes, since Pulumi's own plugin is not installed; it asks the real"
    " API server, with strict validation in previews; docs/kubernetes-stand-in.md says where it differs;"
    f" to install the plugin: {INSTALL}"
)


def choose(environment: Mapping[str, str]) -> Choice:
    """Asks whatever has the plugin's name, which takes a second or two the first time."""
    passed_over: list[str] = []
    newest = plugin_places.newest_installed(environment, NAME)
    for path in itertools.chain(plugin_places.on_path(environment, NAME, (DIRECTORY,)), [newest] if newest else []):
        answer = plugin_version.version_of(path)
        if is_official(answer.version):
            return Choice(path, tuple(passed_over))
        passed_over.append(
            f"{path} is not Pulumi's plugin {NAME} {official.MAJOR}: {answer.sentence}; it is passed over"
        )
    return Choice(None, tuple(passed_over))


def is_official(version: str) -> bool:
    """Another clone's stand-in says of itself that it is one."""
    return version.partition(".")[0] == official.MAJOR and "+" not in version


def with_choice(environment: Mapping[str, str], choice: Choice) -> dict[str, str]:
    """The environment in which the engine takes it."""
    if choice.official is None:
        return plugin_places.with_stand_in(environment, DIRECTORY, (DIRECTORY,), first=bool(choice.passed_over))
    if not choice.passed_over:
        return dict(environment)
    others = plugin_places.path_without(environment, (DIRECTORY, choice.official.parent))
    return plugin_places.with_path(environment, [str(choice.official.parent), *others])


def notices(choice: Choice) -> tuple[str, ...]:
    return (*choice.passed_over, *(() if choice.official else (NOTICE,)))
