"""`python -m training.jaxlib_flags > training/jaxlib_flags.json`: the flags of XLA that the installed jaxlib has.

Runs in the hosts' environment, so the table is of the locked jaxlib; infra/ reads it where no jaxlib is. Owns how they
are found out: a library names each of its flags as a C string, and says of each whether it knows it and what changes.
No table of XLA's own has them: the help that jaxlib prints is cut off by its log. Refuses to own what to make of a flag
that is gone (infra/stack_file/jaxlib_flags.py).
"""

from __future__ import annotations

import importlib.metadata
import json
import mmap
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jaxlib
from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

_WORD = re.compile(rb"\0(xla_[a-z0-9_]{3,90})(?=\0)")
_ASKED = ("true", "false")
_UNKNOWN = b"Unknown flag"
# Of what each of _ASKED changes.
_KINDS: dict[tuple[bool, ...], str] = {
    (False, True): "on",
    (True, False): "off",
    (False, False): "ignored",
}


def table() -> dict[str, Any]:
    """Names by what a value changes. on, off: the default of a switch; ignored: a switch that changes nothing."""
    found: dict[str, list[str]] = {"on": [], "off": [], "ignored": [], "others": []}
    plain, _ = _options("")
    for name in sorted(_words()):
        answers = {value: _options(f"--{name}={value}") for value in _ASKED}
        if any(_UNKNOWN in error for _, error in answers.values()):
            continue
        taken = [options for options, _ in answers.values()]
        changes = tuple(options != plain for options in taken)
        kind = _KINDS.get(changes, "others") if all(taken) else "others"
        found[kind].append(f"--{name}")
    return {"jaxlib": importlib.metadata.version("jaxlib"), **found}


def _words() -> set[str]:
    """What may be a flag: whole strings of the library that parses them."""
    with (Path(str(jaxlib.__file__)).parent / "libjax_common.so").open("rb") as library:
        text = mmap.mmap(library.fileno(), 0, access=mmap.ACCESS_READ)
        return {word[1].decode() for word in _WORD.finditer(text)}


def _options(flags: str) -> tuple[bytes, bytes]:
    """What programs are compiled with under those flags, empty where they are refused, and what is said then."""
    return _in_child(lambda: _serialized(flags))


def _serialized(flags: str) -> bytes:
    os.environ["XLA_FLAGS"] = flags
    options: Any = _jax.CompileOptions()
    _ = options.executable_build_options.debug_options  # parses XLA_FLAGS, once in a process
    return options.SerializeAsString()


def _in_child(act: Callable[[], bytes]) -> tuple[bytes, bytes]:
    """What a copy of this process returns, and what it has written to standard error: a bad flag ends a process."""
    (read_result, write_result), (read_error, write_error) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(write_error, 2)
        status = 1
        try:
            os.write(write_result, act())
            status = 0
        finally:
            os._exit(status)
    os.close(write_result)
    os.close(write_error)
    with os.fdopen(read_error, "rb") as errors, os.fdopen(read_result, "rb") as results:
        error, result = errors.read(), results.read()
    _, status = os.waitpid(child, 0)
    return (result if status == 0 else b""), error


if __name__ == "__main__":
    json.dump(table(), sys.stdout, indent=1)
    sys.stdout.write("\n")
