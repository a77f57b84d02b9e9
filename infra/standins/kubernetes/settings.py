"""The provider's settings: from the stack's config or a provider resource, else from the environment, as 4.x has them.

Pure. Owns names and defaults. Refuses to read the kubeconfig (kubeconfig.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.providers.input_types import Unknown

# A switch, and the variable that it falls back to.
_SWITCHES = {
    "deleteUnreachable": "PULUMI_K8S_DELETE_UNREACHABLE",
    "enablePatchForce": "PULUMI_K8S_ENABLE_PATCH_FORCE",
    "upsertExistingObjects": "PULUMI_K8S_UPSERT_EXISTING_OBJECTS",
    "enableConfigMapMutable": "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE",
    "enableSecretMutable": "PULUMI_K8S_ENABLE_SECRET_MUTABLE",
}
_SERVER_SIDE_APPLY, _ITS_VARIABLE = "enableServerSideApply", "PULUMI_K8S_ENABLE_SERVER_SIDE_APPLY"
_TEXTS = ("kubeconfig", "context", "cluster", "namespace")
# Settings that change nothing of what the stand-in does.
_WITHOUT_EFFECT = ("clusterIdentifier", "kubeClientSettings", "suppressDeprecationWarnings", "suppressHelmHookWarnings")
_KNOWN = {*_SWITCHES, *_TEXTS, *_WITHOUT_EFFECT, _SERVER_SIDE_APPLY, "version"}


@dataclass(frozen=True)
class ProviderSettings:
    """kubeconfig: a path or its text. is_known: False while a preview does not know which cluster it will be."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    namespace: str = ""
    delete_unreachable: bool = False
    force: bool = False
    takes_existing: bool = False
    mutable: frozenset[str] = frozenset()
    is_known: bool = True


def problems(values: Mapping[str, Any], environment: Mapping[str, str]) -> list[tuple[str, str]]:
    """Settings that the stand-in cannot follow, each with a sentence."""
    found = [
        (key, f"the stand-in for the kubernetes plugin does not know the setting '{key}'")
        for key, value in values.items()
        if key not in _KNOWN and value not in (None, "", False, "false")
    ]
    given = values.get(_SERVER_SIDE_APPLY, environment.get(_ITS_VARIABLE))
    if given not in (None, "") and not _is_true(given):
        found.append((_SERVER_SIDE_APPLY, "the stand-in for the kubernetes plugin applies on the server's side alone"))
    return found


def parse(values: Mapping[str, Any], environment: Mapping[str, str]) -> ProviderSettings:
    switches = {
        key: _is_true(values[key]) if values.get(key) is not None else _is_true(environment.get(variable, ""))
        for key, variable in _SWITCHES.items()
    }
    kinds = {"ConfigMap": "enableConfigMapMutable", "Secret": "enableSecretMutable"}
    return ProviderSettings(
        **{key: _text(values.get(key)) for key in _TEXTS},
        delete_unreachable=switches["deleteUnreachable"],
        force=switches["enablePatchForce"],
        takes_existing=switches["upsertExistingObjects"],
        mutable=frozenset(kind for kind, key in kinds.items() if switches[key]),
        is_known=not any(isinstance(values.get(key), Unknown) for key in _TEXTS),
    )


def _text(value: Any) -> str:
    """A kubeconfig may be given as an object too, of which its text is JSON."""
    if value is None or isinstance(value, Unknown):
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _is_true(value: Any) -> bool:
    return value is True or value == "true"
