"""A named model against the tokenizer of its text: MaxText refuses two vocabularies, and would on paid hosts. Pure."""

from __future__ import annotations

from infra.preview.fit import model_sizes
from infra.stack_file.settings import Settings, SettingsError


def check(settings: Settings) -> None:
    """Raises SettingsError for a model whose own vocabulary is known and another one than that of its text."""
    model = str(settings.training.get("model_name", "default"))
    sizes = model_sizes.sizes(model, {})
    pieces = settings.data_options.vocab_size
    if not settings.sources or sizes is None or settings.training.get("override_model_config"):
        return
    if sizes.vocabulary != pieces:
        raise SettingsError(
            f"data_options.vocab_size is {pieces}, but {model} has a vocabulary of {sizes.vocabulary}: give its "
            f"tokenizer (data_options.tokenizer, a sentencepiece model, with vocab_size {sizes.vocabulary}), or write "
            f"training.override_model_config: true for that model with a vocabulary of your text's own"
        )
