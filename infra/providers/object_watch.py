"""Objects of a cluster as the API server tells of their changes, for a resource that waits for one of them.

Owns that Ctrl-C and the deadline are heard while nothing changes. Refuses to own what is waited for.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Generator, Mapping
from typing import Any

from infra.pods.cluster import Cluster
from infra.providers.resource import Context, ResourceError

_SERVED_S = 60  # how long the server keeps one connection open; then it is asked again
_LISTEN_S = 0.1  # between looks whether the operator has pressed Ctrl-C


def watched(context: Context, cluster: Cluster, listed: str, query: Mapping[str, str]) -> Generator[dict[str, Any]]:
    """Those of a list as they are, and again at each change, until the caller has seen enough.

    Raises CancelledError, DeadlineError, TargetError.
    """
    while True:
        events: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()
        asked = {**query, "watch": "true", "timeoutSeconds": str(_SERVED_S)}
        threading.Thread(target=_read, args=(cluster, listed, asked, events), daemon=True).start()
        while True:
            try:
                event = events.get(timeout=_LISTEN_S)
            except queue.Empty:
                context.wait(0)
                continue
            if event is None:  # the server has ended it
                break
            if isinstance(event, BaseException):
                raise event
            if event["type"] == "ERROR":
                raise ResourceError(f"the cluster of context '{cluster.context}' says: {event['object']['message']}")
            if event["type"] != "DELETED":
                yield event["object"]


def _read(cluster: Cluster, listed: str, query: Mapping[str, str], events: queue.SimpleQueue[Any]) -> None:
    try:
        for line in cluster.lines(listed, query):
            events.put(json.loads(line))
        events.put(None)
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        events.put(error)
