"""Whether the installed jaxlib knows the flags, found before anything else starts.

One unknown flag aborts a process that has long begun ("Unknown flag in XLA_FLAGS"), on every host at once. A child
that only parses flags costs half a second and names them all; its verdict is kept in the cache directory.
LIBTPU_INIT_ARGS is not checked: only libtpu on a TPU host parses it.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from training.xla_flags import XLA_FLAGS, FlagError, Flags

# The debug options of a fresh ExecutableBuildOptions are parsed from XLA_FLAGS.
_CHILD = "from jaxlib import _jax; _jax.CompileOptions().executable_build_options.debug_options"
_UNKNOWN = re.compile(r"Unknown flags? in XLA_FLAGS: (?P<flags>.*)")
_BAD_VALUE = re.compile(r"Couldn't interpret value (?P<value>.*) for flag (?P<flag>\S+)\.")
_TIMEOUT_S = 60


def check_flags(flags: Flags, environ: Mapping[str, str], cache: Path) -> None:
    """Raise FlagError naming every flag of XLA_FLAGS that the installed jaxlib refuses, and where it came from."""
    if flags.variable != XLA_FLAGS or not flags.beyond_defaults:
        return
    jaxlib = importlib.metadata.version("jaxlib")
    verdict = cache / "xla_flags" / hashlib.sha256(f"{jaxlib} {flags.text}".encode()).hexdigest()[:16]
    if verdict.exists():
        return
    child = subprocess.run(
        [sys.executable, "-c", _CHILD],
        env={**environ, XLA_FLAGS: flags.text},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    if child.returncode != 0:
        raise FlagError(_sentence(flags, child.stderr, jaxlib))
    verdict.parent.mkdir(parents=True, exist_ok=True)
    verdict.write_text(f"jaxlib {jaxlib} accepts {flags.text}\n")


def _sentence(flags: Flags, stderr: str, jaxlib: str) -> str:
    origins = {flag.name: flag.origin for flag in flags.flags}
    if unknown := _UNKNOWN.search(stderr):
        named = [
            f"{word} (from {origins.get(word.partition('=')[0], 'XLA_FLAGS')})" for word in unknown["flags"].split()
        ]
        return f"jaxlib {jaxlib} does not know {', '.join(named)}; remove it, or every host aborts at start"
    if bad := _BAD_VALUE.search(stderr):
        name = f"--{bad['flag']}"
        return f"jaxlib {jaxlib} cannot read {name}={bad['value']} (from {origins.get(name, 'XLA_FLAGS')})"
    lines = stderr.strip().splitlines() or ["no output"]
    return f"jaxlib {jaxlib} refuses XLA_FLAGS {flags.text!r}: {lines[-1]}"
