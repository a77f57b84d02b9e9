"""What a stack's hosts install, in an artifact store: the wheelhouse and the bundle, the same for every target.

Owns which resources these are and their inputs. Refuses to own what hosts install (infra/host_software/derive.py) and
which store it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from infra.components.resources import StoredBundle, StoredWheelhouse, child_after
from infra.host_software.derive import HostSoftware
from infra.providers.inputs import StoredBundleInputs, StoredWheelhouseInputs


@dataclass(frozen=True)
class StoredSoftwareArgs:
    wheelhouse: StoredWheelhouseInputs
    bundle: StoredBundleInputs


def stored_software_args(software: HostSoftware, store: str, user: str = "") -> StoredSoftwareArgs:
    """user: owner/stack in a store that others use too."""
    contents = software.contents
    return StoredSoftwareArgs(
        StoredWheelhouseInputs(store, contents.wheelhouse, software.build_arguments),
        StoredBundleInputs(
            store=store,
            bundle=software.bundle,
            run_spec=contents.run_spec,
            wheelhouse=contents.wheelhouse,
            lock=str(contents.lock),
            model_file=str(contents.model_file or ""),
            python=contents.python,
            overlay=contents.overlay,
            user=user,
        ),
    )


def store_software(
    args: StoredSoftwareArgs,
    parent: pulumi.Resource,
    guard: pulumi.Resource,
    identity: pulumi.Output[str] | None = None,
) -> tuple[StoredWheelhouse, StoredBundle]:
    """Declare both as children of the stack's component, behind its guard. identity: in a store that others use too."""
    state = None if identity is None else {"state": identity}
    return (
        StoredWheelhouse("wheelhouse", args.wheelhouse, child_after(parent, guard)),
        StoredBundle("bundle", args.bundle, child_after(parent, guard), state),
    )
