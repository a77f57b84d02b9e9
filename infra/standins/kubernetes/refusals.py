"""What the API server's refusals say: which fields, whose they are, whether they cannot change; in one sentence each.

Owns reading its Status objects, admission webhooks' included. Pure. Refuses to invent words: a sentence is the server's
own, behind the name of the resource, with the printed values shortened.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from infra.standins.kubernetes.changes import is_in
from infra.standins.kubernetes.manifests import Fields

_LONGEST_VALUE = 80  # characters; webhooks print whole pod templates
_START, _END = 200, 100  # what is kept of a longer line
_CONFLICT = "FieldManagerConflict"
_NOWHERE = "<nil>"  # the field of a cause that says only that there may be more
_IMMUTABLE = re.compile(r"immutable", re.IGNORECASE)
# A webhook that Go's field errors end in says all of them in one text: `[spec.a: Invalid value: 3: why, spec.b: ...]`.
_FIELD_ERROR = re.compile(
    r"(?:^|[\s\[])(?P<field>[a-z]\w*(?:\.\w+|\[[^\]]*\])+): "
    r"(?:Invalid value|Required value|Forbidden|Unsupported value|Duplicate value|Too long|Too many|Not found)"
)
_VALUE = re.compile(r"((?:Invalid|Duplicate|Unsupported) value: )(.*?)(: )")


@dataclass(frozen=True)
class RefusalCause:
    """field: empty where the server names none."""

    field: str
    message: str
    reason: str = ""


@dataclass(frozen=True)
class ApiRefusal:
    """A Status of the API server that is no success. kind, name: of what the server speaks of."""

    code: int
    reason: str
    message: str
    kind: str = ""
    name: str = ""
    causes: tuple[RefusalCause, ...] = field(default=())

    @property
    def is_absence(self) -> bool:
        return self.code == 404

    @property
    def is_of_namespace(self) -> bool:
        """There is no such namespace."""
        return self.is_absence and self.kind == "namespaces"

    @property
    def is_duplicate(self) -> bool:
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """Fields belong to somebody else."""
        return any(each.reason == _CONFLICT for each in self.causes)

    @property
    def is_of_types(self) -> bool:
        """Apply met a field that its schema does not have, or of another type, and says so in its own way."""
        return self.code == 500 and "typed patch object" in self.message

    def immutable_fields(self) -> tuple[str, ...]:
        """The fields of which it says that they cannot change; empty where it says so of none."""
        found = [each.field for each in self.causes if _IMMUTABLE.search(each.message)]
        if not found and _IMMUTABLE.search(self.message):
            found = [each["field"] for each in _FIELD_ERROR.finditer(self.message)]
        return tuple(dict.fromkeys(each for each in found if each))

    def says_immutable(self) -> bool:
        return bool(_IMMUTABLE.search(self.message) or self.immutable_fields())

    def is_due_to(self, unknown: Iterable[str]) -> bool:
        """Whether all that it complains of is what a preview does not know yet, and therefore has left out."""
        paths = tuple(unknown)
        fields = [each.field for each in self.causes] or [each["field"] for each in _FIELD_ERROR.finditer(self.message)]
        return bool(fields) and all(any(is_in(path, one) or is_in(one, path) for path in paths) for one in fields)

    def sentence(self) -> str:
        """The server's own words, on one line."""
        if self.is_conflict:
            whose = (f"{each.field}: {each.message}" for each in self.causes)
            return f"fields belong to another field manager: {'; '.join(dict.fromkeys(whose))}"
        causes = [each for each in self.causes if each.field != _NOWHERE]
        said = [f"{each.field}: {each.message}" if each.field else each.message for each in causes]
        lines = [line for each in said or [self.message] for line in each.splitlines()]
        return "; ".join(dict.fromkeys(_shortened(line) for line in lines))


def parse(code: int, body: Any) -> ApiRefusal:
    """body: what the server has answered; a proxy in front of it may answer something else."""
    if not isinstance(body, dict) or cast(Fields, body).get("kind") != "Status":
        return ApiRefusal(code, "", f"HTTP {code}")
    status = cast(Fields, body)
    details = cast(Fields, status.get("details") or {})
    causes = tuple(
        RefusalCause(_plain(each.get("field", "")), str(each.get("message", "")), str(each.get("reason", "")))
        for each in cast(list[Fields], details.get("causes") or [])
    )
    return ApiRefusal(
        code,
        str(status.get("reason", "")),
        str(status.get("message") or f"HTTP {code}"),
        str(details.get("kind", "")),
        str(details.get("name", "")),
        causes,
    )


def _plain(path: Any) -> str:
    """A field as validation spells it: those of conflicts begin with a dot."""
    return str(path).removeprefix(".")


def _shortened(message: str) -> str:
    def cut(found: re.Match[str]) -> str:
        value = found[2] if len(found[2]) <= _LONGEST_VALUE else f"{found[2][:_LONGEST_VALUE]}..."
        return f"{found[1]}{value}{found[3]}"

    line = _VALUE.sub(cut, " ".join(message.split()))
    return line if len(line) <= _START + _END else f"{line[:_START]} ... {line[-_END:]}"
