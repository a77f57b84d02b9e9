"""What tests see of the machine they run on: no official plugin, no setting of Slipway's, Pulumi's, Google's, Amazon's.

Without it a plugin on PATH would be started by tests, and `up` with it; and a variable of somebody's shell would let
them pass or fail. Standard library only: the hosts' environment uses it too.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

PLUGINS = ("pulumi-resource-gcp", "pulumi-resource-kubernetes")
PREFIXES = ("AWS_", "CLOUDSDK_", "GCE_", "GCLOUD_", "GOOGLE_", "KUBECONFIG", "PULUMI_", "SLIPWAY_", "STORAGE_EMULATOR_")
# Where tools are kept, which Python the hosts have, whether golden files are written, how long tests wait: of the test
# run itself.
KEPT = frozenset(
    (
        *("SLIPWAY_CACHE", "SLIPWAY_ENGINE_URL", "SLIPWAY_GOLDEN", "SLIPWAY_HOST_PYTHON", "SLIPWAY_SOAK"),
        *("SLIPWAY_TEST_PATIENCE_S", "SLIPWAY_TEST_PLUGIN"),
    )
)


def clean(environment: MutableMapping[str, str], scratch: Path | None = None) -> None:
    """In place. scratch: an empty directory for what stands in for the machine's."""
    for name in [name for name in environment if name.startswith(PREFIXES) and name not in KEPT]:
        del environment[name]
    scratch = scratch or Path(tempfile.mkdtemp(prefix="slipway-tests-"))
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    environment["PATH"] = os.pathsep.join(_without_plugin(folder, scratch) for folder in folders if folder)
    environment["PULUMI_HOME"] = str(scratch / "pulumi")  # the engine reads no $HOME
    # Where it is set, each of some thousand processes would compile what it imports of a clone: a fifth of a preview.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)


def _without_plugin(folder: str, scratch: Path) -> str:
    """The same folder, or one of links to everything else in it."""
    if not any(os.path.lexists(Path(folder, plugin)) for plugin in PLUGINS):
        return folder
    links = Path(tempfile.mkdtemp(dir=scratch))
    for tool in Path(folder).iterdir():
        if tool.name not in PLUGINS:
            (links / tool.name).symlink_to(tool.resolve())
    return str(links)
