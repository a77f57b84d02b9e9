"""A stack while it is being imported: its keys so far, what became of the file's, and what the file does not say. Pure.

Refuses to own any judgement.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from infra.importing.findings import ImportAccount
from infra.importing.job_text import JobNode


@dataclass
class Draft:
    """known: keys of the target's stacks. assumed: what the file does not say, one sentence each. secrets: values that
    are neither written nor shown. used: variables of the job whose values are in MaxText's arguments already."""

    known: Collection[str]
    account: ImportAccount = field(default_factory=ImportAccount)
    keys: dict[str, Any] = field(default_factory=dict[str, Any])
    training: dict[str, Any] = field(default_factory=dict[str, Any])
    assumed: list[str] = field(default_factory=list[str])
    secrets: set[str] = field(default_factory=set[str])
    used: set[str] = field(default_factory=set[str])

    def keep(self, node: JobNode, key: str, value: Any, why: str = "") -> None:
        """As a key of the stack, which may have another name than in the file; dropped where the target has none."""
        part = shown(node)
        if key not in self.known:
            self.account.dropped(node.paths, part, f"stacks of this target have no key `{key}`{f'; {why}' * bool(why)}")
            return
        self.keys[key] = value
        said = self.account.kept if camel(key) == camel(last_key(node.path)) else self.account.renamed
        said(node.paths, part, key, why)


def camel(key: str) -> str:
    """One spelling of what REST writes as jobSpec and clients as job_spec."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), key)


def last_key(path: str) -> str:
    """The key that a value stands under, without its place in a list."""
    return re.sub(r"\[\d+\]", "", path).rpartition(".")[2]


def shown(node: JobNode, limit: int = 60) -> str:
    """`key=value`, as a report names it."""
    text = " ".join(node.text.split()) if not isinstance(node.value, dict | list) else ""
    text = text if len(text) <= limit else f"{text[: limit - 3]}..."
    return f"{last_key(node.path)}={text}" if text else last_key(node.path)


def fields(node: JobNode, account: ImportAccount) -> dict[str, JobNode]:
    """The entries of a mapping in REST's spelling; one that is there in two spellings, or twice, is said."""
    found: dict[str, JobNode] = {}
    for key, entry in node.entries.items():
        name = camel(key)
        if name in found:
            account.contradictory((*found[name].paths, *entry.paths), key, "is given in two spellings; the last holds")
        found[name] = entry
    for key in node.repeated:
        account.contradictory(node.entries[key].paths, key, "is given twice in the same place; the last one holds")
    return found
