"""The text that a run reads, as the stack names it: which prepared data that is, how it is made, whether it is enough.

Looks at sources and at what is prepared already; makes nothing (infra/providers/prepared_data_resource.py does).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from infra.paths import PREPARED, ROOT, WORK
from infra.runs.stored_data import copies, mounts, prepared_bytes
from infra.stack_file import data_source
from infra.stack_file.settings import Settings, SettingsError, Workload
from infra.targets.places import below, in_bucket
from training.data.demand import demand_of, refusal
from training.data.identity import TRAIN_TOKENIZER, DataError, Manifest, PrepareOptions, content_id, corpus_files
from training.data.prepared import is_prepared, read_prepared
from training.run_spec import DataSpec, RunSpec, epochs_sentence


def data_spec(settings: Settings) -> DataSpec | None:
    """The data, named by its content; None for synthetic. Raises SettingsError for sources that are not there."""
    if not settings.sources:
        return None
    if content := data_source.prepared_content(settings.sources):
        return _on_hosts(settings, content)
    try:
        files = corpus_files(settings.sources, ROOT)
        content = content_id(files, _options(settings), WORK / "cache" / "data-stat.json")
    except DataError as error:
        raise SettingsError(f"data: {error}") from None
    if not any(file.path.stat().st_size for file in files):
        raise SettingsError(f"data: every file of '{settings.data}' is empty")
    return _on_hosts(settings, content)


def stored_at(settings: Settings, content: str) -> str:
    """Where the text lies once it is prepared: a directory of this machine, or a place in a bucket."""
    return below(stored_below(settings), content)


def stored_below(settings: Settings) -> str:
    """The place that holds the prepared text of this stack, below its content, and maybe others' too."""
    if data_source.prepared_content(settings.sources):
        return settings.data.strip().rpartition("/")[0]
    return settings.places.data


def _on_hosts(settings: Settings, content: str) -> DataSpec:
    places, stored = settings.places, stored_at(settings, content)
    directory = below(places.data_on_hosts, content) if places.data_on_hosts else stored
    mounted_from = stored if places.data_is_mounted else ""
    return DataSpec(directory, content, settings.data_options.max_epochs, mounted_from)


def prepare_arguments(workload: Workload) -> list[str]:
    """Of training.data.prepare: the sources, and its options as flags, spelled as the fields are."""
    options = _options(workload)
    flags = [
        f"--{field.name.replace('_', '-')}={getattr(options, field.name)}"
        for field in dataclasses.fields(options)
        if not isinstance(field.default, bool)
    ]
    return [*workload.sources, *flags]


def prepared_in(settings: Settings, data: DataSpec) -> str:
    """The directory of this machine where a bucket's text is prepared; empty for what it has from elsewhere."""
    from_here = in_bucket(settings.places.data) and not data_source.prepared_content(settings.sources)
    return str(PREPARED / data.content) if from_here else ""


def notices(settings: Settings, spec: RunSpec, prepared: Path = PREPARED) -> tuple[str, ...]:
    """How hosts get the run's data and how often the run reads it, as far as that is known before `up`.

    Raises SettingsError for other data than the run's, and for what the run cannot do with it.
    """
    data = spec.data
    if data is None:
        return ()
    stored = stored_at(settings, data.content)
    directory = prepared / data.content if in_bucket(stored) else Path(data.directory)
    manifest = _manifest_in(directory, data.content)
    road = (_road(settings, spec.hosts, data, manifest),) if in_bucket(stored) else ()
    if manifest is None:
        return road or ("data is not prepared yet; `up` prepares it and counts its tokens",)
    demand = demand_of(spec)
    if sentence := refusal(manifest, demand):
        raise SettingsError(sentence)
    return (*road, epochs_sentence(demand.tokens, manifest.train.tokens or 0))


def _manifest_in(directory: Path, content: str) -> Manifest | None:
    """Of what is prepared on this machine, wherever hosts read it."""
    if not is_prepared(directory):
        return None
    try:
        return read_prepared(directory, content)
    except DataError as error:
        raise SettingsError(f"data: {error}") from None


def _road(settings: Settings, hosts: int, data: DataSpec, manifest: Manifest | None) -> str:
    """From this machine to the hosts of a cloud."""
    url = stored_at(settings, data.content)
    if manifest:
        size = prepared_bytes(manifest)
        what = f"{size / 1e6:,.1f} MB in {len(manifest.files)} files of content {data.content}"
    elif data_source.prepared_content(settings.sources):
        size, what = None, f"{url}, of which `up` says how much it is"
    else:
        size = sum(file.path.stat().st_size for file in corpus_files(settings.sources, ROOT))
        what = (
            f"{size / 1e6:,.1f} MB of text, not prepared here yet; `up` prepares it, counts its tokens and pushes it "
            f"to {url}, unless it lies there already"
        )
    if data.mounted_from:
        return f"data: {what}; {mounts(hosts, url)}"
    if settings.places.data_on_hosts:
        return f"data: {what}; hosts read it on their data disk, in {data.directory}, where it has to be"
    return f"data: {what}; {copies(size, hosts, url)}"


def _options(workload: Workload) -> PrepareOptions:
    given = workload.data_options
    return PrepareOptions(
        text_key=given.text_key,
        vocab_size=given.vocab_size,
        tokenizer=given.tokenizer or TRAIN_TOKENIZER,
        heldout_fraction=given.heldout_fraction,
        record_bytes=given.record_bytes,
        seed=given.seed,
    )
