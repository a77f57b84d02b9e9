"""What an out-of-memory error of the TPU compiler says, in numbers. A leaf: standard library only."""

from __future__ import annotations

import re

_UNIT = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_SIZE = r"([0-9]+(?:\.[0-9]+)?)\s*([KMGTP]?)"
_SAID = re.compile(rf"\(?{_SIZE}B?\)? exceed(?:s|ed)? available HBM \(?{_SIZE}", re.IGNORECASE)
_USED_OF = re.compile(rf"Used {_SIZE} of {_SIZE} hbm", re.IGNORECASE)


def needed_and_available(text: str) -> tuple[float, float] | None:
    """Bytes of HBM that a program wants and may have, or None where the text is about something else."""
    found = _SAID.search(text) or _USED_OF.search(text)
    if not found:
        return None
    return float(found[1]) * _UNIT[found[2].upper()], float(found[3]) * _UNIT[found[4].upper()]
