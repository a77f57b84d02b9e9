"""The tokenizer: training one on the corpus, and counting a shard's tokens exactly as MaxText will see them.

Owns the sentencepiece options. Refuses other kinds of tokenizers: MaxText's tiktoken and Hugging Face ones need no
preparation, and their counts would need their code.
"""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from training.data.documents import pieces
from training.data.identity import DEFAULT_RECORD_BYTES, DataError
from training.data.partial import write_atomically
from training.data.shards import read_shard

SAMPLE_BYTES_PER_PIECE = 500  # 4,096 pieces: 2 MB, about 15 s on one core
SEEDS_PER_PIECE = 5
# Newlines and runs of spaces become pieces, bytes cover the rest, and decoding gives the text back.
# pad is 0 because grain's packing pads with 0; it is no other piece's id because MaxText masks the loss of pad_id.
_TRAINING = {
    "model_type": "unigram",
    "split_by_whitespace": False,
    "allow_whitespace_only_pieces": True,
    "split_by_unicode_script": False,
    "remove_extra_whitespaces": False,
    "normalization_rule_name": "identity",
    "byte_fallback": True,
    "pad_id": 0,
    "eos_id": 1,
    "bos_id": 2,
    "unk_id": 3,
    "num_threads": 1,  # sums of floats differ with the number of threads
    "max_sentence_length": 2 * DEFAULT_RECORD_BYTES,  # longer sentences would be dropped without an error
    # Speed at equal compression (measured), with SEEDS_PER_PIECE instead of a million seeds: drop half in each round.
    "shrinking_factor": 0.5,
    "num_sub_iterations": 1,
    "minloglevel": 2,
}


@dataclass(frozen=True)
class Encoding:
    """How a record becomes tokens: the model and MaxText's add_bos and add_eos."""

    model: Path
    add_bos: bool
    add_eos: bool


@dataclass(frozen=True)
class TokenCounts:
    """Of one shard: tokens with BOS and EOS, the longest record's tokens, how often each id occurs."""

    tokens: int
    longest_record: int
    by_id: Mapping[int, int]


def train(shards: Iterable[Path], vocab_size: int, model: Path) -> None:
    """Train on the head of `shards`, a uniform sample because their order is random, and write `model`.

    Raises DataError where the corpus cannot yield this many pieces.
    """
    trained = io.BytesIO()
    sample = _sample(chain.from_iterable(map(read_shard, shards)), vocab_size * SAMPLE_BYTES_PER_PIECE)
    try:
        SentencePieceTrainer.train(
            sentence_iterator=sample,
            model_writer=trained,
            vocab_size=vocab_size,
            seed_sentencepiece_size=vocab_size * SEEDS_PER_PIECE,
            **_TRAINING,
        )
    except (RuntimeError, OSError) as error:
        raise DataError(_refusal(str(error), vocab_size)) from error
    write_atomically(model, trained.getvalue())


def _sample(texts: Iterator[bytes], size: int) -> Iterator[str]:
    """About `size` bytes of text, in pieces that sentencepiece does not drop."""
    left = size
    for text in texts:
        for _, piece in pieces(text, DEFAULT_RECORD_BYTES):
            if left <= 0:
                return
            left -= len(piece)
            yield piece.decode()


def _refusal(message: str, vocab_size: int) -> str:
    if too_high := re.search(r"value <= (\d+)", message):
        most = too_high[1]
        return f"the corpus yields at most {most} pieces, not {vocab_size}: give --vocab-size {most} or more text"
    if too_low := re.search(r"required_chars\D*\d+ vs (\d+)", message):
        least = too_low[1]
        return f"the corpus needs at least {least} pieces, not {vocab_size}: give --vocab-size {least} or more"
    return f"sentencepiece cannot train {vocab_size} pieces on this corpus: {' '.join(message.split())}"


def load(encoding: Encoding) -> SentencePieceProcessor:
    """The model. Raises DataError where it is none, or lacks an id that MaxText would then insert as -1."""
    try:
        processor = SentencePieceProcessor(model_file=str(encoding.model))
    except (RuntimeError, OSError) as error:
        raise DataError(f"{encoding.model} is not a sentencepiece model: {' '.join(str(error).split())}") from error
    for name, wanted, found in (
        ("bos", encoding.add_bos, processor.bos_id()),
        ("eos", encoding.add_eos, processor.eos_id()),
    ):
        if wanted and found < 0:
            raise DataError(f"{encoding.model} has no {name} piece: give --no-add-{name} and set add_{name}: false")
    return processor


def count(shard: Path, encoding: Encoding) -> TokenCounts:
    """Encode every record of a shard, as MaxText's SentencePieceTokenizer.encode does."""
    processor = load(encoding)
    by_id: Counter[int] = Counter()
    extra = encoding.add_bos + encoding.add_eos
    longest = records = 0
    for text in read_shard(shard):
        ids: list[int] = processor.EncodeAsIds(text.decode())
        by_id.update(ids)
        longest = max(longest, len(ids) + extra)
        records += 1
    if encoding.add_bos:
        by_id[processor.bos_id()] += records
    if encoding.add_eos:
        by_id[processor.eos_id()] += records
    return TokenCounts(by_id.total(), longest, by_id)


def entropy_nats(by_id: Mapping[int, int]) -> float:
    """-sum p ln p over the tokens that occur: nats per token of a model that knows only their frequencies."""
    total = sum(by_id.values())
    return math.fsum(-n / total * math.log(n / total) for _, n in sorted(by_id.items()) if n)
