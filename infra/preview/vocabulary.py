"""A named model against the tokenizer of its text: MaxText refuses two vocabularies, and would on paid hosts. Pure.

A model's is MaxText's own, written to training/model_shapes.json.
"""

from __future__ import annotations

import json
from functools import cache

from infra.paths import TRAINING
from infra.stack_file.settings import Settings, SettingsError

_SHAPES = TRAINING / "model_shapes.json"


def check(settings: Settings) -> None:
    """Raises SettingsError for a model whose own vocabulary is known and another one than that of its text."""
    model = str(settings.training.get("model_name", "default"))
    vocabulary = _vocabularies().get(model)
    pieces = settings.data_options.vocab_size
    if not settings.sources or vocabulary is None or settings.training.get("override_model_config"):
        return
    if vocabulary != pieces:
        raise SettingsError(
            f"data_options.vocab_size is {pieces}, but {model} has a vocabulary of {vocabulary}: give its "
            f"tokenizer (data_options.tokenizer, a sentencepiece model, with vocab_size {vocabulary}), or write "
            f"training.override_model_config: true for that model with a vocabulary of your text's own"
        )


@cache
def _vocabularies() -> dict[str, int]:
    return {model: int(shape["vocab_size"]) for model, shape in json.loads(_SHAPES.read_text()).items()}
