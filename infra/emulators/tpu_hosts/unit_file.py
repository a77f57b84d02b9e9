"""A systemd service as its file has it, as far as an emulated host runs one. Pure; standard library only.

Owns the keys that are honoured, and when a service is started again. Refuses to own processes (service.py) and what
else systemd reads: `ignored` names such keys, and a host says them. What quotes, `%` and `$` mean is unit_words.py's.
"""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from infra.emulators.tpu_hosts.unit_words import UnitError, expanded, specified, words

KILL_MODES = ("control-group", "mixed", "process", "none")
RESTARTS = ("no", "on-failure", "always", "on-success", "on-abnormal", "on-abort")
LIMITS = {"LimitNOFILE": "RLIMIT_NOFILE", "LimitMEMLOCK": "RLIMIT_MEMLOCK", "LimitCORE": "RLIMIT_CORE"}
_CLEAN_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
_SECONDS = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 0.001, "min": 60.0, "m": 60.0, "h": 3600.0}
_FOR_EVER_S = 1e9
_BURST = 5  # starts within StartLimitIntervalSec
_WITHOUT_EFFECT = ("Unit.Description", "Unit.After", "Unit.Wants", "Install.WantedBy")


@dataclass(frozen=True)
class UnitCommand:
    """`may_fail`: `-` stands before it. `as_root`: `+` or `!` does. `is_literal`: `:` does, so no `$` is expanded."""

    words: tuple[str, ...]
    may_fail: bool = False
    as_root: bool = False
    is_literal: bool = False

    def arguments(self, environment: Mapping[str, str]) -> list[str]:
        """After its program, whose name no variable may be in."""
        return list(self.words[1:]) if self.is_literal else expanded(self.words[1:], environment)


@dataclass(frozen=True)
class Unit:
    """Times in seconds; `limits` by the names of the module `resource`, infinity as -1."""

    main: UnitCommand
    before: tuple[UnitCommand, ...] = ()
    user: str = ""
    environment: tuple[tuple[str, str], ...] = ()
    restart: str = "no"
    restart_s: float = 0.1
    no_restart_after: frozenset[int] = frozenset()
    stop_timeout_s: float = 90.0
    kill_mode: str = "control-group"
    journal: str = ""  # LogNamespace
    limits: tuple[tuple[str, int], ...] = ()
    start_limit_s: float = 10.0
    ignored: tuple[str, ...] = ()

    def is_started_too_often(self, ages_s: Sequence[float]) -> bool:
        """`ages_s`: how long ago its starts were."""
        return sum(age_s < self.start_limit_s for age_s in ages_s) >= _BURST

    def is_clean(self, code: int) -> bool:
        """`code` as subprocess has it: negative for a signal."""
        return code == 0 or -code in _CLEAN_SIGNALS

    def starts_again(self, code: int) -> bool:
        """After an end that nobody asked for."""
        if abs(code) in self.no_restart_after:
            return False
        match self.restart:
            case "always":
                return True
            case "on-failure":
                return not self.is_clean(code)
            case "on-success":
                return self.is_clean(code)
            case "on-abnormal" | "on-abort":
                return code < 0 and not self.is_clean(code)
            case _:
                return False


def parse(text: str) -> Unit:
    """The unit of a `.service` file. Raises UnitError."""
    values = _entries(text)
    mains = [_command(value) for value in values.pop("ExecStart", [])]
    if len(mains) != 1:
        raise UnitError(f"[Service] has {len(mains)} ExecStart= settings; this host takes one")
    fields: dict[str, Any] = {"main": mains[0]}
    fields["before"] = tuple(_command(value) for value in values.pop("ExecStartPre", []))
    fields["environment"] = tuple(
        (name, value) for line in values.pop("Environment", []) for name, value in map(_variable, words(line))
    )
    codes = [code for line in values.pop("RestartPreventExitStatus", []) for code in line.split()]
    fields["no_restart_after"] = frozenset(map(_status, codes))
    fields["limits"] = tuple((LIMITS[key], _limit(values.pop(key)[-1])) for key in LIMITS if values.get(key))
    for key, (field, read) in _SINGLE.items():
        if values.get(key):
            fields[field] = read(specified(values.pop(key)[-1]))
    ignored = tuple(key for key in values if key not in _WITHOUT_EFFECT)
    return Unit(**fields, ignored=ignored)


def _entries(text: str) -> dict[str, list[str]]:
    """Settings by key, of other sections than [Service] as `Section.Key`; an empty one forgets those before it."""
    values, section = defaultdict[str, list[str]](list), ""
    for line in map(str.strip, re.sub(r"\\\n", " ", text).splitlines()):
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        key, equals, value = map(str.strip, line.partition("="))
        if not equals or not section:
            raise UnitError(f"Missing '=', or a setting outside of a section: {line}")
        key = key if section == "Service" else f"{section}.{key}"
        values[key] = [*values[key], value] if value else []
    return values


def _command(line: str) -> UnitCommand:
    prefix = re.match(r"[-@:+!|]*", line)
    signs = prefix[0] if prefix else ""
    if unknown := {"@", "|"} & {*signs}:
        raise UnitError(f"{unknown.pop()} before a command is not honoured by this emulated host: {line}")
    if re.search(r"(?<!\S);(?!\S)", line):
        raise UnitError(f"several commands in one setting are not honoured by this emulated host: {line}")
    if not (found := words(line[len(signs) :])):
        raise UnitError(f"Empty path in command line: {line}")
    return UnitCommand(tuple(found), "-" in signs, "+" in signs or "!" in signs, ":" in signs)


def _variable(word: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    return name, value


def _status(word: str) -> int:
    if word.isdecimal():
        return int(word)
    return int(signal.Signals[word if word.startswith("SIG") else f"SIG{word}"])


def _seconds(value: str) -> float:
    if value == "infinity":
        return _FOR_EVER_S
    spans = re.findall(r"([0-9.]+) *([a-z]*)", value)
    if not spans or any(unit not in _SECONDS for _, unit in spans):
        raise UnitError(f"Failed to parse time span: {value}")
    return sum(float(number) * _SECONDS[unit] for number, unit in spans)


def _limit(value: str) -> int:
    return -1 if value == "infinity" else int(value)


def _one_of(allowed: tuple[str, ...], value: str) -> str:
    if value not in allowed:
        raise UnitError(f"{value} is none of {', '.join(allowed)}")
    return value


_SINGLE: dict[str, tuple[str, Any]] = {
    "User": ("user", str),
    "LogNamespace": ("journal", str),
    "Restart": ("restart", partial(_one_of, RESTARTS)),
    "RestartSec": ("restart_s", _seconds),
    "TimeoutStopSec": ("stop_timeout_s", _seconds),
    "Unit.StartLimitIntervalSec": ("start_limit_s", _seconds),
    "KillMode": ("kill_mode", partial(_one_of, KILL_MODES)),
}
