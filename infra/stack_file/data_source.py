"""What `slipway:data` names: text of this machine that is prepared, or prepared text that lies in a bucket. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set

from infra.targets import places

_OF_THE_RUN = frozenset({"vocab_size", "max_epochs"})
_PREPARED = re.compile(r"(?:gs|s3)://[^\s;]+/([0-9a-f]{16})")


def prepared_content(sources: Sequence[str]) -> str:
    """The content of prepared text in a bucket, which the last part of its URL names; empty for sources of text.

    So a run's name follows from the stack file alone, and no preview asks a bucket.
    """
    match = _PREPARED.fullmatch(sources[0]) if len(sources) == 1 else None
    return match[1] if match else ""


def problem(sources: Sequence[str], place: str, options: Set[str]) -> str | None:
    """Why a target whose prepared text lies at `place` (empty: it has none) cannot train on this; a clause.

    options: those of `data_options` that the stack gives.
    """
    if not place:
        return "hosts of its target cannot read prepared text yet: write `slipway:data: synthetic`"
    if not any(map(places.in_bucket, sources)):
        return None
    if not places.in_bucket(place):
        return "hosts on this machine read text of this machine: name files, a directory or a glob"
    if any(map(places.in_s3, sources)) and not places.in_s3(place):
        return f"hosts of this stack have credentials for {place.partition('://')[0]}:// alone; push the text there"
    if not prepared_content(sources):
        return (
            "prepared text in a bucket stands alone, and the last part of its URL is its content: "
            "gs://bucket/path/<16 hex digits>, as `slipway data push DIRECTORY gs://bucket/path` prints it (or s3://)"
        )
    if without_effect := sorted(options - _OF_THE_RUN):
        return (
            f"that text is prepared already, so data_options.{without_effect[0]} changes nothing of it: leave it out, "
            f"or prepare the text anew"
        )
    return None
