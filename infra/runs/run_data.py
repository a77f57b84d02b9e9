"""The text that a run reads, as the stack names it: which prepared data that is, how it is made, whether it is enough.

Looks at sources and at what is prepared already; makes nothing (infra/providers/prepared_data_resource.py does).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from infra.paths import ROOT, WORK
from infra.stack_file.settings import Settings, SettingsError, Workload
from infra.targets.places import below
from training.data.identity import TRAIN_TOKENIZER, DataError, PrepareOptions, content_id, corpus_files
from training.data.prepared import is_prepared, read_prepared
from training.run_spec import DataSpec, RunSpec, epochs_sentence, too_few_tokens


def data_spec(settings: Settings) -> DataSpec | None:
    """The data, named by its content; None for synthetic. Raises SettingsError for sources that are not there."""
    if not settings.sources:
        return None
    try:
        files = corpus_files(settings.sources, ROOT)
        content = content_id(files, _options(settings), WORK / "cache" / "data-stat.json")
    except DataError as error:
        raise SettingsError(f"data: {error}") from None
    if not any(file.path.stat().st_size for file in files):
        raise SettingsError(f"data: every file of '{settings.data}' is empty")
    return DataSpec(below(settings.places.data, content), content, settings.data_options.max_epochs)


def prepare_arguments(workload: Workload) -> list[str]:
    """Of training.data.prepare: the sources, and its options as flags, spelled as the fields are."""
    options = _options(workload)
    flags = [
        f"--{field.name.replace('_', '-')}={getattr(options, field.name)}"
        for field in dataclasses.fields(options)
        if not isinstance(field.default, bool)
    ]
    return [*workload.sources, *flags]


def notices(spec: RunSpec) -> tuple[str, ...]:
    """How often the run reads its data, as far as that is known before `up`.

    Raises SettingsError for other data than the run's, and where it would read it too often.
    """
    if spec.data is None:
        return ()
    directory = Path(spec.data.directory)
    if not is_prepared(directory):
        return ("data is not prepared yet; `up` prepares it and counts its tokens",)
    try:
        tokens = read_prepared(directory, spec.data.content).train.tokens or 0
    except DataError as error:
        raise SettingsError(f"data: {error}") from None
    needed = spec.steps * spec.tokens_per_step
    refusal = too_few_tokens(needed, tokens, spec.data.max_epochs)
    if refusal:
        raise SettingsError(refusal)
    return (epochs_sentence(needed, tokens),)


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
