"""What becomes of each flag of an XLA_FLAGS string: dead, the default, what hosts have anyway, or left to say. Pure.

Owns the order of these. Which flags the locked jaxlib has, and what replaces others, is in
infra/stack_file/jaxlib_flags.py; which ones hosts are given is theirs to say (`slipway env`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from infra.importing.findings import ImportAccount
from infra.stack_file.jaxlib_flags import of_locked_jaxlib
from infra.targets.host_variables import HostVariable
from training.xla_flags import XLA_FLAGS, Flag, FlagError, merge, parse

_ORIGIN = "the file"


def judge(
    text: str, account: ImportAccount, hosts: Iterable[HostVariable], paths: Iterable[str] = (), key: str = ""
) -> tuple[Flag, ...]:
    """Says of each flag what becomes of it. hosts: what hosts get anyway. key: of the stack that takes others, if any.

    Returns those that differ from what hosts get, which a stack has to say if it shall have them.
    """
    where = tuple(paths)
    try:
        flags = parse(text, XLA_FLAGS, _ORIGIN)
    except FlagError as error:
        account.dropped(where, XLA_FLAGS, str(error))
        return ()
    for name in sorted({flag.name for flag in flags}):
        values = dict.fromkeys(str(flag.value) for flag in flags if flag.name == name)
        if len(values) > 1:
            why = f"is given {len(values)} times: {', '.join(values)}; the last holds, as in jaxlib"
            account.contradictory(where, name, why)
    ours = {each.value.partition("=")[0]: each for each in hosts if each.name == XLA_FLAGS}
    left: list[Flag] = []
    for flag in merge(XLA_FLAGS, flags).flags:
        if why := _settled(flag, ours):
            account.dropped(where, str(flag), why)
            continue
        left.append(flag)
        why = _different(flag, ours)
        if key:
            account.kept(where, str(flag), key, why)
        else:
            account.dropped(where, str(flag), f"no key of this stack sets a flag; {why}")
    return tuple(left)


def _settled(flag: Flag, ours: Mapping[str, HostVariable]) -> str | None:
    """Why a stack has nothing to say of it."""
    jaxlib, value, mine = of_locked_jaxlib(), _spelled(flag.value), ours.get(flag.name)
    if problem := jaxlib.problem(flag.name):
        return problem
    if mine and _spelled(mine.value.partition("=")[2] or None) == value:
        return f"hosts have it without being told: {mine.why}"
    if flag.name in jaxlib.ignored:
        return f"jaxlib {jaxlib.version} takes it and does nothing"
    if not mine and jaxlib.switches.get(flag.name) == value:
        return f"is the default of jaxlib {jaxlib.version}"
    return None


def _different(flag: Flag, ours: Mapping[str, HostVariable]) -> str:
    mine, finer = ours.get(flag.name), of_locked_jaxlib().finer(flag.name)
    instead = f"instead of hosts' {mine.value.partition('=')[2]}" if mine else "hosts do not have it"
    return f"{instead}; {finer}" if finer else instead


def _spelled(value: str | None) -> str:
    """A switch has several spellings."""
    word = "true" if value is None else value.lower()
    return {"1": "true", "0": "false"}.get(word, word)
