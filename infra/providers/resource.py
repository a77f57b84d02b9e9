"""What every resource of our provider is made of: inputs with a replace-or-update table, and the context of one call.

Owns the contract between server.py (which speaks to the engine) and one module per resource (which acts on the world).
Knows nothing of gRPC, so a resource reads as plain Python.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from infra.providers import input_types

type Outputs = dict[str, Any]


class OnChange(StrEnum):
    UPDATE = "update"
    REPLACE = "replace"
    IGNORE = "ignore"  # carried for the next create; a change alone is no reason to touch the resource


def updates(because: str = "", **field: Any) -> Any:
    """An input whose change is applied in place; `because` is said where its resource replaces in some state anyway."""
    return dataclasses.field(metadata={"on_change": OnChange.UPDATE, "because": because}, **field)


def replaces(because: str = "", **field: Any) -> Any:
    """An input whose change needs a new resource; `because` is what a preview says of it."""
    return dataclasses.field(metadata={"on_change": OnChange.REPLACE, "because": because}, **field)


def ignored(**field: Any) -> Any:
    """An input that only the next create or update reads."""
    return dataclasses.field(metadata={"on_change": OnChange.IGNORE}, **field)


class ResourceError(Exception):
    """What went wrong, in one sentence, with the next step. Shown as it is, without a traceback."""


class CancelledError(ResourceError):
    """The operator pressed Ctrl-C; whatever was accepted stays and is in the state."""


class DeadlineError(ResourceError):
    """The resource's timeout has passed."""


@dataclass(frozen=True)
class RemoteService:
    """Who answers for a kind of resource: the real one by its host name, or what `variable` names in its place."""

    real: str
    variable: str
    instead: str = ""

    @property
    def name(self) -> str:
        return self.instead or self.real


@dataclass
class Context:
    """One call of the engine: where to say progress, when to stop.

    `report` shows a passing line on the resource's row, `say` one that stays; `accepted` is set once something exists,
    so that a later failure keeps its id in the state instead of losing it.
    """

    urn: str
    deadline: float
    cancelled: threading.Event
    report: Callable[[str], None]
    say: Callable[[str], None]
    accepted: tuple[str, Outputs] | None = None

    def accept(self, identifier: str, outputs: Outputs) -> None:
        """Something exists now under this id: from here on a failure reports it as made, but not ready."""
        self.accepted = (identifier, outputs)

    def now(self) -> float:
        """Seconds of the clock that `deadline` and `wait` are measured by."""
        return time.monotonic()

    def pause(self, seconds: float) -> bool:
        """Sleep; True as soon as the operator has pressed Ctrl-C."""
        return self.cancelled.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Sleep, or raise CancelledError or DeadlineError."""
        remaining = self.deadline - self.now()
        if self.pause(max(0.0, min(seconds, remaining))):
            raise CancelledError("stopped by Ctrl-C; run `pulumi up` again to go on, or `pulumi destroy`")
        if remaining <= seconds:
            raise DeadlineError("not ready before its timeout; run `pulumi up` again to go on waiting")


class ResourceInputs(Protocol):
    """The contract of a resource: a frozen dataclass with its token, whose fields say what a change of each does."""

    token: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


class Resource[I: ResourceInputs](ABC):
    """One kind of thing, as the provider makes and keeps it."""

    inputs: type[I]
    timeout_s: ClassVar[float] = 600.0
    # Ask the engine to read before it plans, for things that can change without us.
    refresh_before_update: ClassVar[bool] = False

    @property
    def token(self) -> str:
        return self.inputs.token

    @abstractmethod
    def create(self, context: Context, new: I) -> tuple[str, Outputs]:
        """Make it, or find what an interrupted create made. Returns id and outputs."""

    @abstractmethod
    def read(self, context: Context, identifier: str, outputs: Outputs) -> Outputs | None:
        """The outputs as they are now, or None if it is gone."""

    def update(self, context: Context, identifier: str, outputs: Outputs, new: I) -> Outputs:
        """Apply the changed inputs in place: as a create, if that is all there is to it."""
        return self.create(context, new)[1]

    @abstractmethod
    def delete(self, context: Context, identifier: str, outputs: Outputs) -> None:
        """Remove it. What is already gone is fine."""

    def service(self, values: Mapping[str, Any]) -> RemoteService | None:
        """Who would answer for these inputs or outputs now; None for what is on this machine."""
        del values
        return None

    def is_there(self, context: Context, identifier: str, outputs: Outputs) -> bool:
        """Whether the service that answers now has it; asked of a state that does not record where it was made."""
        return self.read(context, identifier, outputs) is not None

    def drift(self, outputs: Outputs) -> list[str]:
        """Outputs that are not as they should be and that an update mends."""
        del outputs
        return []

    def check(self, values: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Pairs of key and one sentence for inputs of the wrong name or type; unknown values pass."""
        fields = {field.name: field for field in dataclasses.fields(self.inputs)}
        hints = input_types.of(self.inputs)
        failures = [(key, f"'{key}' is not an input of {self.token}") for key in values if key not in fields]
        for name, field in fields.items():
            if name not in values:
                if default_of(field) is MISSING:
                    failures.append((name, f"'{name}' is missing"))
            elif not input_types.fits(values[name], hints[name]):
                failures.append((name, f"'{name}' is {values[name]!r}, expected {field.type}"))
        return failures

    def planned(self, state: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
        """What a preview says of the outputs after an update; UNKNOWN is a value too."""
        return {**state, **new}

    def changes(
        self, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any] | None = None
    ) -> dict[str, OnChange]:
        """Every input that differs, with what that means; `state` holds the outputs, where there are any."""
        del state
        changed: dict[str, OnChange] = {}
        for field in dataclasses.fields(self.inputs):
            kind, default = field.metadata["on_change"], default_of(field)
            # A state that is older than an input has its default: an upgrade is no change.
            if kind is not OnChange.IGNORE and old.get(field.name, default) != new.get(field.name, default):
                changed[field.name] = kind
        return changed

    def reasons(self, replaced: Iterable[str]) -> list[str]:
        """One line for each of these inputs that says why it replaces."""
        table = {field.name: field.metadata.get("because") for field in dataclasses.fields(self.inputs)}
        return [f"{name} replaces: {because}" for name in replaced if (because := table[name])]

    def remarks(self, changes: Mapping[str, OnChange], state: Mapping[str, Any]) -> list[str]:
        """What else a preview says of these changes."""
        del changes, state
        return []

    def parse(self, values: Mapping[str, Any]) -> I:
        """Checked values, or a state's, as the inputs dataclass; numbers arrive as floats and become what it says."""
        hints = input_types.of(self.inputs)
        return self.inputs(
            **{key: input_types.converted(value, hints[key]) for key, value in values.items() if key in hints}
        )


MISSING = dataclasses.MISSING


def default_of(field: dataclasses.Field[Any]) -> Any:
    """What an absent input means, or MISSING where it has to be given."""
    return field.default if field.default_factory is MISSING else field.default_factory()
