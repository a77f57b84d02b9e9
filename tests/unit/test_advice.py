"""Each command that a message advises is run by a test, as tests/advice.py finds and lists them."""

from __future__ import annotations

import ast
import re

import pytest

from tests.advice import ROOT, RUN_BY, RUNS, advised, commands

_HELPERS_SAY = {"--stack", "slipway", "pulumi"}  # Clone and Project give these


def test_every_advised_command_is_run_by_a_test() -> None:
    unlisted = [f"{where} advises `{words}`" for words, where in advised().items() if words not in RUN_BY]
    assert not unlisted, f"{'; '.join(unlisted)}: no test runs it; write one, and name it in RUNS of tests/advice.py"


def test_no_test_is_listed_for_what_nobody_advises() -> None:
    assert set(RUN_BY) <= set(advised())


@pytest.mark.parametrize("test", RUNS)
def test_the_listed_test_spells_the_words(test: str) -> None:
    path, _, name = test.partition("::")
    source = (ROOT / path).read_text()
    (found,) = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name]
    for words in RUNS[test] if "gcloud" not in path else ():
        *earlier, last = [word for word in words.split() if word not in _HELPERS_SAY]
        assert all(word in source for word in earlier), words
        assert re.search(rf"(?<!\w){re.escape(last)}\b", ast.unparse(found)), words


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("stop it; run: .venv/bin/pulumi cancel --yes --stack X", ["pulumi cancel --stack --yes"]),
        ("see `slipway fit X --levers` or `slipway nonesuch X`", ["slipway fit --levers", "slipway nonesuch"]),
        ("what is there says: pulumi preview --stack X --diff (docs)", ["pulumi preview --diff --stack"]),
        ("if no pulumi is at work, make the parallelism keys multiply to X", []),
        ("read it  .venv/bin/slipway logs X --host 0", ["slipway logs --host"]),
        ("from now on: pulumi login X", ["pulumi login"]),
        ("on a name: gcloud secrets versions add X --project X", ["gcloud secrets versions add --project"]),
        ("cannot be executed; run: chmod +x X", ["chmod +x"]),
        ("run `unset X`, or `export X=X`", ["unset", "export"]),
    ],
)
def test_a_command_is_found_in_a_message(message: str, expected: list[str]) -> None:
    assert list(commands(message)) == expected
