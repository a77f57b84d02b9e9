"""Which cluster is meant, and as whom it is asked: the kubeconfig, read as kubectl reads it.

Owns files and their order, the context, and paths in them. Refuses to own what is done with it (api_server.py) and how
a login is obtained (login.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from infra.providers.resource import ResourceError
from infra.standins.kubernetes.settings import ProviderSettings

type _Fields = dict[str, Any]

# Of a cluster or a user: paths that count from the directory of the file which says them.
_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_DIRECTORY = " directory"  # of the file in which an entry stands; no key of a kubeconfig begins with a blank
_NAMED = {"clusters": "cluster", "users": "user", "contexts": "context"}


class UnreachableError(ResourceError):
    """The settings lead to no cluster, nobody answers for it, or it does not know who asks."""


@dataclass(frozen=True)
class ClusterAccess:
    """context: its name. cluster, user: as the kubeconfig has them, paths absolute. directory: of the user's file."""

    context: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    directory: Path

    @property
    def server(self) -> str:
        return str(self.cluster.get("server", ""))


@dataclass(frozen=True)
class _Source:
    """A kubeconfig: its text, the directory that its paths count from, and what it is called in a sentence."""

    text: str
    directory: Path
    name: str


def find(settings: ProviderSettings, environment: Mapping[str, str]) -> ClusterAccess:
    """Raises UnreachableError where no cluster can be told."""
    sources = _sources(settings.kubeconfig, environment)
    config = _merged(sources)
    where = ", ".join(each.name for each in sources) or "no kubeconfig (KUBECONFIG, ~/.kube/config)"
    name = settings.context or str(config["current-context"])
    if not name:
        raise UnreachableError(f"no context is chosen: {where} has no current-context; set kubernetes:context")
    context = config["contexts"].get(name)
    if context is None:
        known = ", ".join(sorted(config["contexts"])) or "none"
        raise UnreachableError(f"context '{name}' does not exist in {where}; there: {known}")
    cluster_name = settings.cluster or str(context.get("cluster", ""))
    cluster = config["clusters"].get(cluster_name)
    if cluster is None or not cluster.get("server"):
        raise UnreachableError(f"context '{name}' names cluster '{cluster_name}', which has no server in {where}")
    user_name = str(context.get("user", ""))
    user = config["users"].get(user_name, {} if not user_name else None)
    if user is None:
        raise UnreachableError(f"context '{name}' names user '{user_name}', which {where} does not have")
    namespace = settings.namespace or str(context.get("namespace") or "default")
    directory = Path(str(user.get(_DIRECTORY, ".")))
    return ClusterAccess(name, namespace, _without_place(cluster), _without_place(user), directory)


def _without_place(entry: _Fields) -> _Fields:
    return {key: value for key, value in entry.items() if key != _DIRECTORY}


def _sources(given: str, environment: Mapping[str, str]) -> list[_Source]:
    if given:
        path = Path(given).expanduser() if "\n" not in given else None
        if path is not None and not given.lstrip().startswith("{"):
            return [_file(path)]
        return [_Source(given, Path.cwd(), "the provider's kubeconfig")]
    listed = [part for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = environment.get("HOME")
    files = [Path(part) for part in listed] or ([Path(home) / ".kube" / "config"] if home else [])
    return [_file(path) for path in files if path.exists()]


def _file(path: Path) -> _Source:
    try:
        return _Source(path.read_text(encoding="utf-8"), path.resolve().parent, str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UnreachableError(f"the kubeconfig {path} cannot be read: {error}") from None


def _merged(sources: Iterable[_Source]) -> dict[str, Any]:
    """Of two entries with one name the first counts, and the first current-context, as to kubectl."""
    merged: dict[str, Any] = {"current-context": "", **{key: {} for key in _NAMED}}
    for source in sources:
        config = _parsed(source)
        merged["current-context"] = merged["current-context"] or config.get("current-context") or ""
        for plural, singular in _NAMED.items():
            for entry in cast(list[_Fields], config.get(plural) or []):
                fields = cast(_Fields, entry.get(singular) or {})
                merged[plural].setdefault(str(entry.get("name", "")), _placed(fields, source.directory))
    return merged


def _parsed(source: _Source) -> _Fields:
    try:
        config: Any = yaml.safe_load(source.text)
    except yaml.YAMLError as error:
        raise UnreachableError(f"{source.name} is not YAML: {' '.join(str(error).split())}") from None
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise UnreachableError(f"{source.name} is not a kubeconfig: it holds {type(config).__name__}, not a mapping")
    return cast(_Fields, config)


def _placed(fields: _Fields, directory: Path) -> _Fields:
    paths = {key: str(directory / str(fields[key])) for key in _PATHS if fields.get(key)}
    return fields | paths | {_DIRECTORY: str(directory)}
