"""What hosts of a request learn when they boot: which bundle, for a request that waits cannot be told of another one.

Owns the object that says it (infra/artifacts/wanted.py), one for each state of a stack: written before anything is
asked for or patched, forgotten by the stack's guard. Refuses to own who reads it: training/bootstrap.sh does, where the
startup script names the object. An update of a node writes the bundle itself into its script, which is believed then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from infra.artifacts import wanted
from infra.artifacts.opening import open_store
from infra.artifacts.store import NoBucketError, Store, StoreError
from infra.providers.resource import Context
from infra.targets.tpu_vm.provider.tpu_inputs import QueuedResourceInputs

_PATIENCE_S = 20.0  # of a store that does not answer, while chips are waited for or deleted


def write(new: QueuedResourceInputs) -> None:
    """Say which bundle it is. Raises StoreError."""
    if new.wanted_key:
        wanted.write(_store(new.wanted_in), new.wanted_key, new.bundle)


def differences(context: Context, inputs: QueuedResourceInputs) -> list[str]:
    """`bundle in wanted/s/i`: what is said is not what the state says, since an `up` was killed or somebody deleted it.

    A store that does not answer stops nothing: a preview and a `destroy` read too.
    """
    if not inputs.wanted_key:
        return []
    try:
        said = wanted.read(_store(inputs.wanted_in), inputs.wanted_key)
    except StoreError as error:
        context.say(f"which bundle hosts learn when they boot is not known: {error}")
        return []
    return [] if said == inputs.bundle else [f"bundle in {inputs.wanted_key}"]


def forget(stores: Iterable[str], stack: str, identity: str) -> None:
    """Whatever a state has said. Raises StoreError; a bucket that is gone has nothing."""
    for uri in stores:
        with contextlib.suppress(NoBucketError):
            _store(uri).delete(wanted.wanted_key(stack, identity))


def _store(uri: str) -> Store:
    return open_store(uri, _PATIENCE_S)
