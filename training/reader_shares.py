"""Which rows of a run's text each host reads, if other hosts train it than began it. A leaf: standard library only.

Owns that hosts have equal parts, in the order of the global batch. Refuses to own how they are read (text_readers.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Share:
    """What of the readers one host has: all rows of several, or a `part` of the rows of one that `parts` hosts have."""

    readers: range
    part: int = 0
    parts: int = 1

    def own(self, rows: Any) -> Any:
        """Of an array with the rows of `readers`."""
        each = len(rows) // self.parts
        return rows[self.part * each : (self.part + 1) * each]


def share(readers: int, hosts: int, host: int) -> Share:
    """Of hosts that `refusal` does not refuse."""
    if readers >= hosts:
        each = readers // hosts
        return Share(range(host * each, (host + 1) * each))
    parts = hosts // readers
    return Share(range(host // parts, host // parts + 1), host % parts, parts)


def refusal(readers: int, hosts: int, rows: int) -> str | None:
    """One sentence for hosts that cannot have what is read for a step, which is `rows` rows; None where they can."""
    began = f"the run began with {readers} hosts, each of which read a share of the text"
    if readers % hosts and hosts % readers:
        return f"{began}; {hosts} cannot have equal parts of that: take a number that divides {readers}, or a multiple"
    if rows % max(readers, hosts):
        return f"{began}; {rows} rows a step are not the same number for each: raise per_device_batch_size"
    return None
