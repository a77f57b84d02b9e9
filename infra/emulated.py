"""Which environment variables put something in the place of Google, and the line that says so.

Owns the table of them: the variable, and what it stands in for. Whoever talks to a cloud says these lines first
(infra/engine/wrapper.py, infra/commands/terminal.py, infra/doctor/). Refuses to read the variables for their clients
and to know which target asks which service (`asks`). Standard library only: it runs at every command.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

TPU, STORAGE = "SLIPWAY_TPU_ENDPOINT", "STORAGE_EMULATOR_HOST"
GKE = "SLIPWAY_GKE_ENDPOINT"
VERTEX = "SLIPWAY_VERTEX_ENDPOINT"
QUESTIONS, STAND_IN = "SLIPWAY_GOOGLE_ENDPOINT", "SLIPWAY_STANDIN_STATE"
PLUGIN = "GOOGLE_*_CUSTOM_ENDPOINT"  # what Google's plugin reads: one variable for each API
SAID = "SLIPWAY_SUBSTITUTES_SAID"  # set for whoever is started after these lines were said
_PLUGIN = re.compile(r"GOOGLE_\w+_CUSTOM_ENDPOINT")


@dataclass(frozen=True)
class Substitute:
    """A variable that is set. counts_as: one of the names above. instead: a clause on what is then not Google's."""

    variable: str
    counts_as: str
    instead: str


_INSTEAD = {
    TPU: "the Cloud TPU API is that server",
    STORAGE: "Cloud Storage is that server",
    GKE: "clusters that the stand-in for Google's plugin makes are the one behind that server",
    VERTEX: "Vertex AI is that server, in every region",
    QUESTIONS: "what `slipway doctor` asks of a project is asked of that server",
    STAND_IN: "what the stand-in for Google's plugin makes are files in that directory",
}


def substitutes(environment: Mapping[str, str]) -> list[Substitute]:
    """Those that are set here."""
    ours = [Substitute(name, name, instead) for name, instead in _INSTEAD.items() if environment.get(name)]
    plugin = [
        Substitute(name, PLUGIN, "Google's plugin asks that server")
        for name in sorted(environment)
        if _PLUGIN.fullmatch(name) and environment[name] and not is_googles(environment[name])
    ]
    return ours + plugin


def sentences(environment: Mapping[str, str], asks: Container[str] | None = None) -> list[str]:
    """One for each variable that is set; with `asks` (of a target) only for those that its stacks ask."""
    return [
        f"{each.variable} is {environment[each.variable]}: {each.instead}, not Google;"
        f" to reach Google: unset {each.variable}"
        for each in substitutes(environment)
        if asks is None or each.counts_as in asks
    ]


def is_googles(endpoint: str) -> bool:
    """Private Service Connect has names of its own below googleapis.com."""
    host = urlsplit(endpoint).hostname or ""
    return host == "googleapis.com" or host.endswith(".googleapis.com")
