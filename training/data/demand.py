"""What a run asks of prepared text, and whether a manifest meets it. A leaf: preview, `up` and hosts ask the same.

Owns the comparison and its sentences. Refuses to own whether files are what the manifest says (prepared.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from training.data.identity import Manifest
from training.run_spec import RunSpec, too_few_tokens


@dataclass(frozen=True)
class DataDemand:
    """`tokens` of all steps; each training token may be read `max_epochs` times. 0 hosts or pieces: nobody has said."""

    tokens: int
    max_epochs: int
    hosts: int
    vocab_size: int


def demand_of(spec: RunSpec) -> DataDemand:
    """Of a run that reads text."""
    assert spec.data
    return DataDemand(
        tokens=spec.steps * spec.tokens_per_step,
        max_epochs=spec.data.max_epochs,
        hosts=spec.hosts,
        vocab_size=int(cast(int, spec.maxtext.get("vocab_size") or 0)),
    )


def refusal(manifest: Manifest, demand: DataDemand) -> str | None:
    """One sentence for text with which the run could not train on every host; None where it can."""
    train, heldout, tokenizer = manifest.train, manifest.heldout, manifest.tokenizer
    if train.tokens is None or heldout.tokens is None or tokenizer is None:
        return "the data was prepared without a tokenizer; training needs one"
    if sentence := too_few_tokens(demand.tokens, train.tokens, demand.max_epochs):
        return sentence
    for name, split in (("training", train), ("held-out", heldout)):
        if split.records < demand.hosts:
            return (
                f"{split.records} {name} records do not reach {demand.hosts} hosts; "
                f"{_more_records(name)}, lower data_options.record_bytes or give more text"
            )
    if demand.vocab_size not in (0, tokenizer.vocab_size):
        return (
            f"vocab_size is {demand.vocab_size}, but the tokenizer has {tokenizer.vocab_size} pieces; "
            f"set vocab_size to {tokenizer.vocab_size}"
        )
    return None


def _more_records(split: str) -> str:
    return f"{'raise' if split == 'held-out' else 'lower'} data_options.heldout_fraction"
