"""Clusters of GKE that are there, as its API tells of them, or what stands in for Google's plugin.

For the verbs of day 2, the stack's guard, `slipway orphans` and `slipway gc`. A cluster's pools go with it. Refuses to
own what is in a cluster (infra/pods/). Not run against Google's own service.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from infra import emulated
from infra.google_cloud import retries
from infra.google_cloud.api import GoogleApi
from infra.google_cloud.api_errors import BusyError, GoneError
from infra.google_cloud.asking import asking
from infra.names import OWNER_LABEL, STACK_LABEL
from infra.providers.resource import Context, ResourceError
from infra.standins.gcp import gke, schema
from infra.standins.gcp.emulated_world import EmulatedWorld
from infra.standins.gcp.store import StandInStore
from infra.targets.billed import Billed
from infra.targets.errors import TargetError

type Found = Mapping[str, Any]

_ANSWERS_S, _LIST_S, _DELETE_S = 60.0, 300.0, 3600.0  # how long each may take; GKE takes minutes to delete one


class _NotEnabledError(ResourceError):
    """The project does not use GKE, so nothing of it is there."""


def _not_enabled(code: int, message: str, sentence: str) -> ResourceError | None:
    never = code == 403 and re.search(r"has not been used in project|it is disabled", message)
    return _NotEnabledError(sentence) if never else None


_API = GoogleApi(
    name="the GKE API",
    host="container.googleapis.com",
    variable="GOOGLE_CONTAINER_CUSTOM_ENDPOINT",
    role="roles/container.clusterAdmin",
    own_error=_not_enabled,
)


def named(project: str, location: str, name: str) -> Found | None:
    """The cluster of that name. Raises TargetError where that cannot be told."""
    path = f"projects/{project}/locations/{location}/clusters/{name}"
    if store := _stand_in():
        return store.read(gke.CLUSTER, path)
    with asking(lambda _: None, _ANSWERS_S) as context:
        return _get(context, path)


def billed(project: str, say: Callable[[str], None]) -> Sequence[Billed]:
    """Those of a project that carry our label, in every region. Raises TargetError where Google does not tell."""
    if _is_another_emulated_cloud():
        return ()
    if store := _stand_in():
        every = [each for each in store.every(gke.CLUSTER) if each["project"] == project]
    else:
        with asking(say, _LIST_S) as context:
            every = _listed(context, project)
    return [_billed(project, each) for each in every if OWNER_LABEL in each.get("resourceLabels", {})]


def remove(names: Collection[str], say: Callable[[str], None]) -> Sequence[str]:
    """Delete these with their pools, and wait until they are gone."""
    store = _stand_in()
    for name in sorted(names) if store else ():
        assert store
        EmulatedWorld(os.environ).delete(gke.CLUSTER, name, {})
        store.delete_below(gke.POOL, f"{name}/nodePools")
        store.delete(gke.CLUSTER, name)
    if not store:
        with asking(say, _DELETE_S) as context:
            _delete(context, sorted(names))
    return sorted(names)


def _stand_in() -> StandInStore | None:
    """What the stand-in has made, where it stands in for Google."""
    directory = os.environ.get(emulated.STAND_IN)
    return StandInStore(directory, schema.version()) if directory else None


def _is_another_emulated_cloud() -> bool:
    """Whether Google's TPUs are an emulator's here, which has no GKE, and nothing stands in for GKE."""
    tpus = os.environ.get(emulated.TPU, "")
    instead = os.environ.get(emulated.STAND_IN) or _API.service.instead
    return bool(tpus) and not emulated.is_googles(tpus) and not instead


def _billed(project: str, found: Found) -> Billed:
    labels: dict[str, str] = found["resourceLabels"]
    name = f"projects/{project}/locations/{found['location']}/clusters/{found['name']}"
    state = str(found.get("status") or "there").lower()
    return Billed(name, labels.get(STACK_LABEL, ""), state, tuple(labels.items()))


def _listed(context: Context, project: str) -> list[Found]:
    try:
        answer = _ask(context, f"list the clusters of {project}", "GET", f"projects/{project}/locations/-/clusters")
    except _NotEnabledError:
        return []
    if missing := answer.get("missingZones"):
        raise TargetError(f"the GKE API does not tell which clusters there are in {', '.join(missing)}; run it again")
    return answer.get("clusters", [])


def _get(context: Context, path: str) -> Found | None:
    with contextlib.suppress(GoneError, _NotEnabledError):
        return _ask(context, f"read {path}", "GET", path)
    return None


def _delete(context: Context, paths: Sequence[str]) -> None:
    """Busy is a cluster that something else is done to, and one that is being deleted."""
    left = list(paths)
    pauses = retries.polls()
    while left:
        for path in left:
            with contextlib.suppress(GoneError, BusyError):
                _ask(context, f"delete {path}", "DELETE", path)
        context.wait(next(pauses))
        left = [path for path in left if _get(context, path)]
        context.report(f"{len(left)} clusters are being deleted")


def _ask(context: Context, doing: str, method: str, path: str) -> dict[str, Any]:
    version = "" if _API.service.instead else "v1/"  # the variable of Google's plugin ends with one
    return retries.call(context, _API, doing, lambda: _object(_API.send(method, f"{version}{quote(path)}")))


def _object(answer: Any) -> dict[str, Any]:
    value: object = answer.json()
    if not isinstance(value, dict):
        raise ResourceError("the answer is not one of the GKE API; look at proxies in between, then run it again")
    return cast(dict[str, Any], value)
