"""What became of each key of a file that is imported: kept, renamed, dropped or contradictory, and why. Pure.

Owns the account: one finding for each value of the file, or for each flag and argument in one, and what no finding
covers. Refuses to own the judgements (the other modules of this folder) and how they are printed
(infra/commands/import_.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum


class Verdict(StrEnum):
    CONTRADICTORY = "contradictory"  # with something else of the file, or with what there is; `why` says what holds
    DROPPED = "dropped"
    RENAMED = "renamed"
    KEPT = "kept"


@dataclass(frozen=True)
class KeyFinding:
    """paths: of the values that it is about; none for what stands outside the file, like its name. part: a flag,
    variable or argument, where a value has several. key: of the stack, where it has become one."""

    verdict: Verdict
    paths: tuple[str, ...]
    part: str
    why: str
    key: str = ""


@dataclass
class ImportAccount:
    """Collects findings; the only thing of an import that changes."""

    findings: list[KeyFinding] = field(default_factory=list[KeyFinding])

    def kept(self, paths: Iterable[str], part: str, key: str, why: str = "") -> None:
        self.findings.append(KeyFinding(Verdict.KEPT, tuple(paths), part, why, key))

    def renamed(self, paths: Iterable[str], part: str, key: str, why: str = "") -> None:
        self.findings.append(KeyFinding(Verdict.RENAMED, tuple(paths), part, why, key))

    def dropped(self, paths: Iterable[str], part: str, why: str) -> None:
        self.findings.append(KeyFinding(Verdict.DROPPED, tuple(paths), part, why))

    def contradictory(self, paths: Iterable[str], part: str, why: str, key: str = "") -> None:
        self.findings.append(KeyFinding(Verdict.CONTRADICTORY, tuple(paths), part, why, key))

    @property
    def paths(self) -> set[str]:
        return {path for finding in self.findings for path in finding.paths}

    def merged(self) -> tuple[KeyFinding, ...]:
        """Contradictions first; what is said of several pools in the same words is said once."""
        together: dict[tuple[Verdict, str, str, str], KeyFinding] = {}
        for finding in self.findings:
            words = (finding.verdict, finding.part, finding.why, finding.key)
            earlier = together.get(words)
            paths = dict.fromkeys((*(earlier.paths if earlier else ()), *finding.paths))
            together[words] = replace(finding, paths=tuple(paths))
        order = list(Verdict)
        return tuple(sorted(together.values(), key=lambda finding: order.index(finding.verdict)))
