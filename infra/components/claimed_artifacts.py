"""Records in a shared artifact store what a stack will use, before anything is made, so that `slipway gc` keeps it.

Owns what is said where that fails. Refuses to own the record (infra/artifacts/uses.py).
"""

from __future__ import annotations

from infra.artifacts import uses
from infra.artifacts.opening import open_store
from infra.artifacts.store import NoBucketError, StoreError
from infra.artifacts.uses import Use
from infra.host_software.derive import HostSoftware
from infra.names import label_value, stack_label
from infra.stack_file.cloud_training import CloudTrainingSettings, how_to_make_foundation
from infra.stack_file.settings import SettingsError
from infra.stack_file.terms import Terms

_PATIENCE_S = 20.0  # before anything is made, a bucket that does not answer is better said than waited for


def claim(settings: Terms, software: HostSoftware) -> None:
    """Raises SettingsError with the command that makes the bucket, where there is none."""
    store = settings.places.artifacts
    try:
        uses.record(open_store(store, _PATIENCE_S), use_of(settings, software))
    except NoBucketError as error:
        if not isinstance(settings, CloudTrainingSettings) or settings.artifacts:
            raise SettingsError(str(error)) from None
        raise SettingsError(
            f"there is no foundation in {settings.place} yet: no bucket {store}; {how_to_make_foundation(settings)}"
        ) from None
    except StoreError as error:
        raise SettingsError(str(error)) from None


def use_of(settings: Terms, software: HostSoftware) -> Use:
    """What has to be kept for this stack, whoever runs `slipway gc`."""
    return Use(label_value(settings.owner), stack_label(settings.stack), software.wheelhouse.id, software.bundle)
