"""What the platform announces of a Google VM: that it is preempted, or ended for maintenance of its host.

Read from the metadata server's `instance/preempted` and `instance/maintenance-event` by its long poll, so a notice is
heard when it is given: 30 s before a preemption, 60 s before maintenance (Compute Engine's documentation). Owns the
keys and the poll. Refuses to own what follows (training/supervisor.py). Standard library only.
"""

from __future__ import annotations

import http.client
import threading
import urllib.error
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path

from training.hosts import ask_metadata

PREEMPTION_S = 30.0
_KEYS = {
    "preempted": ("TRUE", "the platform preempts this host"),
    "maintenance-event": ("TERMINATE", "the platform ends this host for maintenance"),
}
_POLL_S, _PAUSE_S = 60, 1.0
_PRODUCT = Path("/sys/class/dmi/id/product_name")  # where Google's own libraries look too


def can_be_given(environ: Mapping[str, str]) -> bool:
    """Whether this is a Google VM, or its metadata server is named."""
    if environ.get("GCE_METADATA_HOST"):
        return True
    return _PRODUCT.exists() and _PRODUCT.read_text().startswith("Google")


def standing(environ: Mapping[str, str]) -> str:
    """The notice that stands now, in a few words; empty where there is none."""
    for key in _KEYS if can_be_given(environ) else ():
        try:
            value, _ = _read(environ, key, "")
        except (OSError, http.client.HTTPException):
            continue
        if said := _said(key, value):
            return said
    return ""


def watch(environ: Mapping[str, str], heard: Callable[[str], None]) -> None:
    """From here on call `heard`, on another thread, at each notice, also one that stands already."""
    for key in _KEYS if can_be_given(environ) else ():
        threading.Thread(target=_watch, args=(environ, key, heard), name=f"slipway-{key}", daemon=True).start()


def _watch(environ: Mapping[str, str], key: str, heard: Callable[[str], None]) -> None:
    etag, pause = "", threading.Event()
    while not pause.wait(_PAUSE_S if etag else 0.0):
        try:
            value, now = _read(environ, key, etag)
        except urllib.error.HTTPError as error:
            if error.code in (403, 404):
                return  # a metadata server that does not have it, as a pod's
        except (OSError, http.client.HTTPException):
            etag = "0"  # whatever it is when the server answers again is new
        else:
            if now != etag and (said := _said(key, value)):
                heard(said)
            etag = now


def _said(key: str, value: str) -> str:
    prefix, said = _KEYS[key]
    return said if value.startswith(prefix) else ""


def _read(environ: Mapping[str, str], key: str, etag: str) -> tuple[str, str]:
    """Value and its ETag: at once, or with an ETag when the value is another or _POLL_S have passed."""
    query = {"wait_for_change": "true", "last_etag": etag, "timeout_sec": str(_POLL_S)} if etag else {}
    path = f"{key}?{urllib.parse.urlencode(query)}"
    with ask_metadata(environ, path, _POLL_S + 10 if etag else 5) as answer:
        return answer.read().decode(), answer.headers.get("ETag", "0")
