"""slipway:data:PreparedData: the corpus as shuffled, tokenised-for records in a directory named by its content.

A create prepares the data where that is not done yet (training/data/prepare.py, in the hosts' environment), pushes it
where hosts read it in a bucket, refuses what holds other data than its name says, and checks that the run can train on
it. A delete keeps the data unless the stack says otherwise and no other stack uses it; a bucket's is kept always, as
other stacks and runs may name it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from infra.artifacts.opening import bucket_regions, open_store
from infra.artifacts.store import NotPermittedError
from infra.bucket_places import billed_reads, data_bucket_problem
from infra.host_software.installation import COMMAND, Installation
from infra.paths import ROOT, RUN_SPEC
from infra.providers import children
from infra.providers.inputs import PreparedDataInputs
from infra.providers.made_at import StoredResource
from infra.providers.resource import Context, OnChange, Outputs, ResourceError
from infra.runs.stored_data import copies, manifest_in, missing_in, prepared_bytes, renew, stored_manifest
from infra.targets.places import bucket_of, in_bucket
from training.data.demand import DataDemand, refusal
from training.data.identity import DataError, Manifest
from training.data.prepared import is_prepared, read_prepared


class PreparedDataResource(StoredResource[PreparedDataInputs]):
    inputs = PreparedDataInputs
    timeout_s: ClassVar[float] = 24 * 3600.0
    store_key: ClassVar[str] = "directory"
    refresh_before_update: ClassVar[bool] = True  # else `up` would find nothing to do where a shard is lost

    def create(self, context: Context, new: PreparedDataInputs) -> tuple[str, Outputs]:
        if in_bucket(new.directory):
            _check_place(context, new)
            _store(context, new)
        elif not is_prepared(Path(new.directory)):
            _prepare(context, new)
        return _content(new.directory), _checked(context, new)

    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        try:
            return _summary(_manifest(str(outputs["directory"])))
        except DataError:
            return None

    def update(self, context: Context, identifier: str, outputs: Outputs, new: PreparedDataInputs) -> Outputs:
        _check_place(context, new)
        return _checked(context, new)

    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        if in_bucket(str(outputs["directory"])):
            return
        directory = Path(str(outputs["directory"]))
        if outputs.get("on_destroy") == "delete" and directory.is_dir() and not _used(directory):
            shutil.rmtree(directory)

    def changes(
        self, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any] | None = None
    ) -> dict[str, OnChange]:
        """What a state is too old to say has not changed by being said now."""
        changed = super().changes(old, new, state)
        return {name: change for name, change in changed.items() if name in old}


def _check_place(context: Context, new: PreparedDataInputs) -> None:
    """Refuse a bucket of another region than the hosts', before anything is prepared, pushed or bought.

    Whoever may write objects need not be allowed to look at their bucket, so that is said, and the push goes on.
    """
    if not (new.region and in_bucket(new.directory)):
        return
    bucket = bucket_of(new.directory)
    try:
        regions = bucket_regions(new.directory)
    except NotPermittedError as error:
        context.say(f"data: whether gs://{bucket} is in {new.region}, where the hosts are, cannot be told: {error}")
        return
    if problem := data_bucket_problem(bucket, regions, new.region):
        raise ResourceError(problem)
    if said := billed_reads(bucket, regions):
        context.say(said)


def _prepare(context: Context, new: PreparedDataInputs) -> None:
    installation = Installation(new.artifacts, new.bundle, new.root)
    installing = "installing the hosts' environment"
    python = children.run(context, installing, COMMAND, installation.environment_only, str(ROOT))
    # -P: the bundle's training package, not the one of the directory that sources are relative to.
    command = [python, "-P", "-m", "training.data.prepare", *new.arguments, "--out", new.directory]
    code = {"PYTHONPATH": installation.directory}
    children.run(context, "preparing data", command, code, str(ROOT))


def _store(context: Context, new: PreparedDataInputs) -> None:
    """Prepared and pushed by the command, whose environment is this machine's: hosts may have another platform."""
    store = open_store(new.directory)
    manifest = _told(manifest_in, store)
    if not new.prepared_in:
        return
    if manifest and missing_in(store, manifest) is None:
        renew(store)
        return
    slipway = str(Path(sys.executable).with_name("slipway"))
    if not is_prepared(Path(new.prepared_in)):
        prepare = [slipway, "data", "prepare", *new.arguments, "--out", new.prepared_in]
        children.run(context, "preparing data", prepare, os.environ, str(ROOT))
    push = [slipway, "data", "push", new.prepared_in, new.directory.rpartition("/")[0]]
    children.run(context, "pushing data", push, os.environ, str(ROOT))


def _manifest(directory: str) -> Manifest:
    if in_bucket(directory):
        return stored_manifest(directory)
    return read_prepared(Path(directory), _content(directory))


def _content(directory: str) -> str:
    return directory.rpartition("/")[2]


def _summary(manifest: Manifest) -> Outputs:
    return {"train_tokens": manifest.train.tokens, "heldout_tokens": manifest.heldout.tokens}


def _checked(context: Context, new: PreparedDataInputs) -> Outputs:
    manifest = _told(_manifest, new.directory)
    sentence = refusal(manifest, DataDemand(new.tokens_needed, new.max_epochs, new.hosts, new.vocab_size))
    if sentence:
        raise ResourceError(sentence)
    if in_bucket(new.directory):
        size = prepared_bytes(manifest)
        road = copies(size, new.copied_by, new.directory) if new.copied_by else f"it lies in {new.directory}"
        context.say(f"data: {size / 1e6:,.1f} MB in {len(manifest.files)} files; {road}")
    return _summary(manifest)


def _told[T, R](ask: Callable[[T], R], of: T) -> R:
    try:
        return ask(of)
    except DataError as error:
        raise ResourceError(str(error)) from None


def _used(directory: Path) -> bool:
    """Whether hosts of another stack here have it in their run spec. Records of runs say only that one once had it."""
    specs = directory.parent.parent.glob(f"*/hosts/*/{RUN_SPEC}")
    return any(str(directory) in spec.read_text() for spec in specs)
