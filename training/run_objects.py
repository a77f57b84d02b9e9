"""What hosts leave in a bucket beside a run's checkpoints: names and order of these objects.

<run>/metrics/host-0/<start>-<number>-<first step>-<last step>.jsonl   lines of its record of steps, in order of names
<run>/hosts/host-0/<start>.json                                        that it has started, as HostStart
<run>/hosts/host-0/<start>-ended.json                                  its last word, as training/host_status.py has it

An object cannot be appended to, so lines that are new are an object of their own, and none is ever changed. Owns these
names. Refuses to own what is written when (training/record_keeper.py) and how it is read (infra/runs/run_history.py).
A leaf: standard library only; infra reads by it.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

HOSTS = "hosts"
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}"
_CHUNK = re.compile(rf"{_MOMENT}-\d{{6}}-\d+-\d+\.jsonl")
_START = re.compile(rf"{HOSTS}/host-(\d+)/({_MOMENT})(-ended)?\.json")


@dataclass(frozen=True)
class HostStart:
    """One start of one host: who, with which bundle, when, and how many steps a checkpoint already held."""

    host: int
    hosts: int
    name: str  # the machine's
    bundle: str
    coordinator: str
    started: float  # in seconds since the epoch
    steps: int
    resumed_from: int | None

    @staticmethod
    def of(values: Mapping[str, Any]) -> HostStart:
        """From its JSON. Raises KeyError where it is none; what a later release says besides is left out."""
        return HostStart(**{field.name: values[field.name] for field in dataclasses.fields(HostStart)})


def chunks_of(host: int) -> str:
    """Where the chunks of a host's record lie, below the run."""
    return f"metrics/host-{host}"


def chunk_name(started: float, number: int, first: int, last: int) -> str:
    """`number` counts the chunks of a start, whose steps may begin with those that an earlier start has left behind."""
    return f"{_moment(started)}-{number:06d}-{first}-{last}.jsonl"


def chunks_in_order(names: Iterable[str]) -> list[str]:
    """Those of the names that are of chunks, in the order in which their lines were written."""
    return sorted(name for name in names if _CHUNK.fullmatch(name))


def start_key(host: int, started: float) -> str:
    return f"{HOSTS}/host-{host}/{_moment(started)}.json"


def end_key(host: int, started: float) -> str:
    return f"{HOSTS}/host-{host}/{_moment(started)}-ended.json"


@dataclass(frozen=True)
class StartKeys:
    """`end` is None of a start without a last word."""

    start: str
    end: str | None


def newest_starts(keys: Iterable[str]) -> dict[int, StartKeys]:
    """Of keys below a run: the newest start of each host, by its index."""
    found = [(int(match[1]), match[2], bool(match[3]), match[0]) for match in map(_START.fullmatch, keys) if match]
    starts = {host: (moment, key) for host, moment, is_end, key in sorted(found) if not is_end}
    ends = {(host, moment): key for host, moment, is_end, key in found if is_end}
    return {host: StartKeys(key, ends.get((host, moment))) for host, (moment, key) in starts.items()}


def _moment(seconds: float) -> str:
    """Names of it sort as the moments do."""
    whole, fraction = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{fraction:06d}"
