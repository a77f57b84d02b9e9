"""slipway:data:PreparedData: the corpus as shuffled, tokenised-for records in a directory named by its content.

A create prepares the data where that is not done yet (training/data/prepare.py, in the hosts' environment), refuses a
directory that holds other data than its name says, and checks that the run has enough of it. A delete keeps the data
unless the stack says otherwise and no other stack uses it. Directories of this machine: only target local has such.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import ClassVar

from infra.host_software.installation import COMMAND, Installation
from infra.paths import ROOT, RUN_SPEC
from infra.providers import children
from infra.providers.inputs import PreparedDataInputs
from infra.providers.resource import Context, Outputs, Resource, ResourceError
from training.data.identity import DataError, Manifest
from training.data.prepared import is_prepared, read_prepared
from training.run_spec import too_few_tokens


class PreparedDataResource(Resource[PreparedDataInputs]):
    inputs = PreparedDataInputs
    timeout_s: ClassVar[float] = 24 * 3600.0

    def create(self, context: Context, new: PreparedDataInputs) -> tuple[str, Outputs]:
        directory = Path(new.directory)
        if not is_prepared(directory):
            installation = Installation(new.artifacts, new.bundle, new.root)
            installing = "installing the hosts' environment"
            python = children.run(context, installing, COMMAND, installation.environment_only, str(ROOT))
            # -P: the bundle's training package, not the one of the directory that sources are relative to.
            command = [python, "-P", "-m", "training.data.prepare", *new.arguments, "--out", new.directory]
            code = {"PYTHONPATH": installation.directory}
            children.run(context, "preparing data", command, code, str(ROOT))
        return directory.name, _checked(new)

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        directory = Path(str(outputs["directory"]))
        try:
            return _summary(read_prepared(directory, directory.name))
        except DataError:
            return None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: PreparedDataInputs) -> Outputs:
        return _checked(new)

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        directory = Path(str(outputs["directory"]))
        if outputs.get("on_destroy") == "delete" and directory.is_dir() and not _used(directory):
            shutil.rmtree(directory)


def _summary(manifest: Manifest) -> Outputs:
    return {"train_tokens": manifest.train.tokens, "heldout_tokens": manifest.heldout.tokens}


def _checked(new: PreparedDataInputs) -> Outputs:
    directory = Path(new.directory)
    try:
        manifest = read_prepared(directory, directory.name)
    except DataError as error:
        raise ResourceError(str(error)) from None
    refusal = too_few_tokens(new.tokens_needed, manifest.train.tokens or 0, new.max_epochs)
    if refusal:
        raise ResourceError(refusal)
    return _summary(manifest)


def _used(directory: Path) -> bool:
    """Whether hosts of another stack here have it in their run spec. Records of runs say only that one once had it."""
    specs = directory.parent.parent.glob(f"*/hosts/*/{RUN_SPEC}")
    return any(str(directory) in spec.read_text() for spec in specs)
