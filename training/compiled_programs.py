"""Compiled programs that a host keeps for its next start, which would compile them anew for minutes otherwise.

Owns who keeps them. Refuses to own where (training/maxtext_config.py). JAX lets host 0 alone write, since its directory
may be a bucket that all share; here it is each host's own disk, and on CPUs a program is a host's own by its name too.
"""

from __future__ import annotations

import warnings

import jax
from jax._src import compilation_cache, compiler  # JAX has no setting for it; its release is locked


def kept_by_every_host() -> None:
    """Call before anything is compiled."""
    compiler._cache_write = _keep  # pyright: ignore[reportPrivateUsage]


def _keep(key: str, seconds: float, name: str, backend: object, executable: object) -> None:
    """In the place of JAX's own: a program that cannot be kept is compiled again at the next start.

    JAX keeps only what took a second to compile; a start has some thirty smaller programs.
    """
    try:
        compilation_cache.put_executable_and_time(key, name, executable, backend, int(seconds))  # type: ignore
    except (OSError, jax.errors.JaxRuntimeError) as error:
        warnings.warn(f"the compiled program {name} is not kept: {error}", stacklevel=2)
