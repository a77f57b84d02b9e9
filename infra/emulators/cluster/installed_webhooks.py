"""Webhooks that somebody installs with JobSet, led to the controller that runs beside the emulated cluster.

In a cluster their Service leads to the controller's pod, and the controller writes its certificate into them. Here no
pod runs and no Service leads anywhere, so the emulator writes both: an address on this machine, and who signs for it.
Owns that, for what is applied by server-side apply, as JobSet's project says to. Refuses to own what the emulator has
applied itself (manifests.py).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Generator
from typing import Any

import yaml

from infra.emulators.cluster import manifests
from infra.emulators.cluster.built_programs import Manifest
from infra.emulators.cluster.components import Layout

_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_ROOT = "/apis/admissionregistration.k8s.io/v1"
_SERVICE = "jobset-webhook-service"
_PAUSE_S = 1.0  # before the API server is asked again
_ITS_END = (OSError, http.client.HTTPException, ValueError)  # the last one of half a line


@contextlib.contextmanager
def led_to_this_machine(layout: Layout) -> Generator[None]:
    """As long as the context lasts; what waits for the API server ends with it."""
    ended = threading.Event()
    for kind in _KINDS:
        threading.Thread(target=_follow, args=(layout, kind, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def led(found: Manifest, port: int, authority: bytes) -> tuple[str, Manifest] | None:
    """Who has applied it, and as what it is to be applied; None where nothing is to be changed."""
    hooks: list[Manifest] = found.get("webhooks") or []
    if not any(each["clientConfig"].get("service", {}).get("name") == _SERVICE for each in hooks):
        return None
    entries: list[Manifest] = found["metadata"].get("managedFields") or []
    applied = [str(each["manager"]) for each in entries if each.get("operation") == "Apply"]
    if not applied:
        return None
    metadata = {key: found["metadata"][key] for key in ("name", "labels", "annotations") if key in found["metadata"]}
    (wanted,) = manifests.adapted([{**found, "metadata": metadata}], port, authority)
    return applied[0], wanted


def _follow(layout: Layout, kind: str, ended: threading.Event) -> None:
    authority = layout.certificates.authority.read_bytes()
    while not ended.wait(_PAUSE_S):
        with contextlib.suppress(*_ITS_END), contextlib.closing(_connection(layout)) as reader:
            reader.request("GET", f"{_ROOT}/{kind}?watch=true", headers=_headers(layout))
            for line in reader.getresponse():
                event: dict[str, Any] = json.loads(line)
                found = led(event["object"], layout.ports.jobset_webhooks, authority)
                if found and event["type"] in ("ADDED", "MODIFIED"):
                    _apply(layout, kind, *found)


def _apply(layout: Layout, kind: str, manager: str, wanted: Manifest) -> None:
    """As whoever applied it, so that applying it anew is no conflict."""
    path = f"{_ROOT}/{kind}/{wanted['metadata']['name']}?fieldManager={manager}&force=true"
    headers = _headers(layout) | {"Content-Type": "application/apply-patch+yaml"}
    with contextlib.closing(_connection(layout)) as writer:
        writer.request("PATCH", path, json.dumps(wanted), headers)
        writer.getresponse().read()


def _connection(layout: Layout) -> http.client.HTTPSConnection:
    trusted = ssl.create_default_context(cafile=str(layout.certificates.authority))
    return http.client.HTTPSConnection(layout.server.removeprefix("https://"), context=trusted)


def _headers(layout: Layout) -> dict[str, str]:
    token = yaml.safe_load(layout.kubeconfig.read_text(encoding="utf-8"))["users"][0]["user"]["token"]
    return {"Authorization": f"Bearer {token}"}
