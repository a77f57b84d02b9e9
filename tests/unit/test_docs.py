"""Files that the documentation, docstrings and comments name are there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from infra.paths import ROOT

FOLDERS = ("infra", "training", "tests", "bench", "tools", "docs")
FILES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
PATHS = {str(path.relative_to(ROOT)) for path in FILES}
NAMES = {path.name for path in FILES} | {path.name for path in ROOT.iterdir()}
DOCUMENTS = [ROOT / "README.md", *(path for path in FILES if path.suffix in (".md", ".py"))]

# A path below a folder of ours, or the bare name of a module or a document; other projects' paths are not ours to know.
_NAMED = re.compile(rf"(?<![\w/.<>{{}}*-])(?:(?:{'|'.join(FOLDERS)})/[\w/.-]*\w|[\w-]+\.(?:py|md))(?!\.?[\w/*<>{{}}-])")
# Examples.
_EXCEPT = re.compile(r"/test_x\.py|/new\.py|/0123456789abcdef\.json")


def test_files_that_are_named_are_there() -> None:
    named = [(str(path), name) for path in DOCUMENTS for text in _texts(path) for name in _NAMED.findall(text)]
    assert not [(path, name) for path, name in named if not _EXCEPT.search(name) and not _is_there(name)]


def test_a_name_that_is_gone_is_found() -> None:
    text = "See infra/startup.py, gone.py (docs/first-project.md, docs/), infra/targets/<target>/plan.py and jax/a.py."
    assert [name for name in _NAMED.findall(text) if not _is_there(name)] == ["infra/startup.py", "gone.py"]


def _is_there(name: str) -> bool:
    return name in NAMES if "/" not in name else (ROOT / name).exists() or f"{name}.py" in PATHS


def _texts(document: Path) -> Iterator[str]:
    """A document's text; of a module its docstrings and comments."""
    text = document.read_text()
    if document.suffix == ".md":
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    yield from re.findall(r"(?:^|  )# .*", text, re.MULTILINE)
