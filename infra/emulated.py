"""Which environment variables put something in the place of Google, and the line that says so.

Owns the table of them: the variable, what it stands in for, which targets could use it. Whoever talks to a cloud says
these lines first (infra/engine/wrapper.py, infra/commands/terminal.py, infra/operate/doctor.py). Refuses to own the
reading of the variables, which is their clients'. Standard library only: it runs at every command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

TPU, STORAGE = "SLIPWAY_TPU_ENDPOINT", "STORAGE_EMULATOR_HOST"
QUESTIONS, STAND_IN = "SLIPWAY_GOOGLE_ENDPOINT", "SLIPWAY_STANDIN_STATE"
SAID = "SLIPWAY_SUBSTITUTES_SAID"  # set for whoever is started after these lines were said
CLOUD_TARGETS = frozenset(("tpu-vm", "foundation"))
# What Google's plugin reads: GOOGLE_COMPUTE_CUSTOM_ENDPOINT, and one for every other API.
_PLUGIN = re.compile(r"GOOGLE_\w+_CUSTOM_ENDPOINT")


@dataclass(frozen=True)
class Substitute:
    """One variable. instead: what that is which is not Google's, as `{value}`'s role in a sentence."""

    variable: str
    instead: str
    targets: frozenset[str]


_SUBSTITUTES = (
    Substitute(TPU, "the Cloud TPU API is that server", frozenset(("tpu-vm",))),
    Substitute(STORAGE, "Cloud Storage is that server", CLOUD_TARGETS),
    Substitute(QUESTIONS, "what `slipway doctor` asks of a project is asked of that server", CLOUD_TARGETS),
    Substitute(
        STAND_IN, "what the stand-in for Google's plugin makes are files in that directory", frozenset(("foundation",))
    ),
)


def substitutes(environment: Mapping[str, str]) -> list[Substitute]:
    """Those that are set here."""
    plugin = (
        Substitute(name, "Google's plugin asks that server", frozenset(("foundation",)))
        for name in sorted(environment)
        if _PLUGIN.fullmatch(name) and not _is_googles(environment[name])
    )
    return [each for each in (*_SUBSTITUTES, *plugin) if environment.get(each.variable)]


def sentences(environment: Mapping[str, str], target: str = "") -> list[str]:
    """One for each that the target could use; of a target that is not known, all."""
    return [
        f"{each.variable} is {environment[each.variable]}: {each.instead}, not Google;"
        f" to reach Google: unset {each.variable}"
        for each in substitutes(environment)
        if not target or target in each.targets
    ]


def _is_googles(endpoint: str) -> bool:
    """Private Service Connect has names of its own below googleapis.com."""
    host = urlsplit(endpoint).hostname or ""
    return host == "googleapis.com" or host.endswith(".googleapis.com")
