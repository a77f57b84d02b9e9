"""How many keys of jobs in the shapes of public samples an import accounts for.

Of the samples' own text nothing is here: tests/unit/job_files/ has files of their shapes, with the source named. The
paths of a file are found by readers that nobody here wrote.
"""

from __future__ import annotations

from bench.record import Figure, reaches
from tests.unit.test_vertex_import import FILES, SHAPES, UNKNOWN, leaves, of_shape, strictly

_REACH = ">= 100"


def figures() -> list[Figure]:
    return [_accounted(shape) for shape in SHAPES]


def _accounted(shape: str) -> Figure:
    """In percent; a key is accounted for where it is said what became of it, and why."""
    wanted = set(leaves(strictly((FILES / shape).read_text())))
    findings = of_shape(shape).findings
    known = {path for finding in findings if finding.why != UNKNOWN for path in finding.paths}
    percent = 100 * len(wanted & known) / len(wanted)
    verdicts = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in ("contradictory",)}
    name = f"import_accounts_for_{shape.rpartition('.')[0].replace('-', '_')}"
    return Figure(name, percent, "%", _REACH, reaches(percent, _REACH), {"keys": len(wanted), **verdicts})
