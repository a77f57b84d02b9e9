"""Which provider plugin for Google's resources the engine gets: Google's own, or the stand-in, and the notice of it.

Owns: where the engine looks for the plugin, the environment in which it takes the one that was chosen, credentials, the
notices. Refuses to own: when a notice is due (infra/engine/wrapper.py knows the command and the stack), and which
version an executable has (plugin_version.py). Standard library only: it runs at every command.

The engine would take what is first on PATH, and an installed plugin only of the SDK's version (plugin_places.py). So
the stand-in is there only where Google's plugin is not, last on PATH, or first where something else has the plugin's
name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from infra.engine import home, plugin_places, plugin_version
from infra.engine.plugin_places import Choice
from infra.google_login import LOGIN_COMMAND
from infra.paths import ROOT

NAME = "gcp"
EXECUTABLE = plugin_places.executable(NAME)
DIRECTORY = ROOT / "infra" / "standins"
CHOSEN = DIRECTORY / "google"  # its executable becomes Google's plugin, the one that PLUGIN names
_OURS = (DIRECTORY, CHOSEN)
PLUGIN, UNASKED = "SLIPWAY_GOOGLE_PLUGIN", "SLIPWAY_GOOGLE_UNASKED"
PLACEHOLDER_TOKEN = "placeholder-no-account"
_CREDENTIALS = (
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GCLOUD_KEYFILE_JSON",
)
_GOOGLES_MACHINE = Path("/sys/class/dmi/id/product_name")


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
    yield from plugin_places.on_path(environment, NAME, _OURS)
    if found := plugin_places.installed(environment, NAME, version):
        yield found


# --- the environment in which the engine takes the chosen one ---


def with_stand_in(environment: Mapping[str, str], first: bool = False) -> dict[str, str]:
    """The environment in which the engine finds the stand-in. first: something else on PATH has the plugin's name."""
    return plugin_places.with_stand_in(environment, DIRECTORY, _OURS, first)


def with_official(environment: Mapping[str, str], plugin: Path) -> dict[str, str]:
    """The environment in which the engine starts this plugin, also where it would not choose it by itself."""
    path = [str(CHOSEN), *plugin_places.path_without(environment, _OURS)]
    return plugin_places.with_path(environment, path) | {PLUGIN: str(plugin)}


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
