"""The contracts of local resources: token, inputs, what a change of each means. Light imports: the program has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from infra.providers.resource import ignored, replaces, updates


@dataclass(frozen=True)
class LocalStackGuardInputs:
    token: ClassVar[str] = "slipway:index:StackGuard"
    directory: str = replaces()  # of the stack; everything it owns on this machine lies below
    on_destroy: str = updates()
    runs: str = updates(default="")  # where its runs lie, if not in runs/ of the directory


@dataclass(frozen=True)
class LocalHostInputs:
    token: ClassVar[str] = "slipway:local:Host"
    directory: str = replaces()
    index: int = replaces()
    count: int = updates()
    coordinator: str = updates()
    run_spec: str = updates()  # the YAML text
    artifacts: str = updates()
    bundle: str = updates()  # its hash: other code on the host is a restart
    root: str = ignored()
    cache: str = ignored()
