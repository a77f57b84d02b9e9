"""Which bundle a pretended host would boot with: as our startup script and training/bootstrap.sh find it out.

Owns what a host that does not boot has to read besides its metadata. Refuses to own when hosts boot (transitions.py,
levers.py), and hosts that do (infra/emulators/tpu_hosts/).
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

from infra import emulated
from infra.artifacts import wanted
from infra.artifacts.opening import open_store
from infra.artifacts.store import StoreError
from infra.emulators.tpu_api.records import Node
from infra.vm_hosts.startup_script import bundle_of, wanted_of

_SCRIPT = "startup-script"
_PATIENCE_S = 5.0


def named_bundle(node: Node) -> str:
    """The bundle that its metadata names; empty where that is no script of ours."""
    return bundle_of(_script(node.message))


def booted_bundle(node: Node) -> str:
    """The one that its hosts run once they are up. Real buckets are never asked, only emulated ones and directories.

    Empty where nothing says it, or nobody answers: such a host has failed, and asks again.
    """
    store, key = wanted_of(_script(node.message))
    if not key or (store.startswith("gs://") and not os.environ.get(emulated.STORAGE)):
        return named_bundle(node)
    with contextlib.suppress(StoreError):
        return wanted.read(open_store(store, _PATIENCE_S), key)
    return ""


def _script(message: Any) -> str:
    return str(message.metadata.get(_SCRIPT, ""))
