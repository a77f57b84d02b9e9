"""XLA_FLAGS and LIBTPU_INIT_ARGS: parsing, the defaults of each platform, merging. A leaf: standard library only.

Owns which flags a host runs with and where each came from. Refuses to own whether jaxlib knows them
(training/flag_check.py), because that takes a process with jaxlib.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from training import gpu_environment

XLA_FLAGS = "XLA_FLAGS"
LIBTPU_INIT_ARGS = "LIBTPU_INIT_ARGS"

JAX_PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}  # of each platform of a run spec

# Known to the locked jaxlib (tests/training/test_xla_flags.py asks it), so that a start without flags of the user's own
# needs no check. MaxText adds the TPU flag itself, but only once the TPU is up and no longer reads it. Those of GPUs
# are in training/gpu_environment.py.
DEFAULTS: dict[str, dict[str, dict[str, str | None]]] = {
    "cpu": {},
    "gpu": {},
    "tpu": {LIBTPU_INIT_ARGS: {"--xla_tpu_spmd_rng_bit_generator_unsafe": "true"}},
}


class FlagError(ValueError):
    """A flag string cannot be used; the message names the variable and the flag."""


@dataclass(frozen=True)
class Flag:
    """One flag; `value` None is a bare `--name`. `origin` says who set it, for messages."""

    name: str
    value: str | None
    origin: str

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value}"


@dataclass(frozen=True)
class Flags:
    """The flags of one variable, and one sentence for each that was set more than once."""

    variable: str
    flags: tuple[Flag, ...]
    overridden: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(shlex.quote(str(flag)) for flag in self.flags)

    @property
    def beyond_defaults(self) -> tuple[Flag, ...]:
        return tuple(flag for flag in self.flags if flag.origin != _DEFAULT)


_DEFAULT = "Slipway's default"
_DEVICES = "--xla_force_host_platform_device_count"


def parse(text: str, variable: str, origin: str) -> tuple[Flag, ...]:
    """Flags of a string in order, duplicates kept. XLA's other form, a file name, is refused: its flags are unseen."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise FlagError(f"{variable} is {text!r}: {error}") from None
    for word in words:
        if not word.startswith("--"):
            raise FlagError(f"{variable} has {word!r}, which is no flag; write --name=value, separated by spaces")
    return tuple(
        Flag(name, value if equals else None, origin) for name, equals, value in (w.partition("=") for w in words)
    )


def merge(variable: str, flags: Iterable[Flag]) -> Flags:
    """Each flag once; a later one wins over an earlier one."""
    chosen: dict[str, Flag] = {}
    overridden: list[str] = []
    for flag in flags:
        earlier = chosen.pop(flag.name, None)
        if earlier and earlier.value != flag.value:
            overridden.append(f"{variable}: {flag} ({flag.origin}) replaces {earlier} ({earlier.origin})")
        elif earlier and earlier.origin == flag.origin:
            overridden.append(f"{variable}: {flag} is given twice ({flag.origin})")
        chosen[flag.name] = flag
    return Flags(variable, tuple(chosen.values()), tuple(overridden))


def for_host(platform: str, devices: int, environ: Mapping[str, str], jaxlib: str) -> tuple[Flags, ...]:
    """What a host sets: the platform's defaults, then the flags of its environment, which win.

    `devices` is the host's device count; on cpu it becomes that many virtual devices, whatever the environment says.
    `jaxlib`: the version that it has.
    """
    result: list[Flags] = []
    for variable in (XLA_FLAGS, LIBTPU_INIT_ARGS):
        defaults = dict(DEFAULTS[platform].get(variable, {}))
        if platform == "gpu" and variable == XLA_FLAGS:
            network = environ.get(gpu_environment.NETWORK, "")
            defaults |= {each.name: each.value for each in gpu_environment.flags(network, jaxlib)}
        flags = [Flag(name, value, _DEFAULT) for name, value in defaults.items()]
        flags += parse(environ.get(variable, ""), variable, f"the host's {variable}")
        if platform == "cpu" and variable == XLA_FLAGS:
            flags.append(Flag(_DEVICES, str(devices), _DEFAULT))
        result.append(merge(variable, flags))
    return tuple(result)
