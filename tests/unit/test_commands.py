"""The verbs of `slipway`: all are listed, none is imported but the one that is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.commands.main import VERBS, Verb, app, command

ROOT = Path(__file__).resolve().parents[2]


def started(words: str, *modules: str) -> subprocess.CompletedProcess[str]:
    """`slipway words`, which then prints those of the modules that it has imported."""
    code = (
        "import atexit, sys; from infra.commands.main import main;"
        f"atexit.register(lambda: print('imported', [name for name in sys.modules if name.startswith({modules!r})]));"
        f"sys.argv = ['slipway', *{words.split()!r}]; main()"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)


def test_help_lists_every_verb_and_imports_none() -> None:
    done = started("--help", "infra.commands.", "rich.markdown")
    assert done.returncode == 0, done.stderr
    for verb in VERBS:
        assert f"\n  {verb} " in done.stdout
    whole = "artifacts that nobody's stack,\n            nothing that runs and no run record names.\n"
    assert whole in done.stdout, "nothing is cut"
    assert done.stdout.endswith("imported ['infra.commands.main']\n")


@pytest.mark.parametrize("verb", VERBS)
def test_listed_help_is_the_verbs_own(verb: str) -> None:
    listed = Verb(verb).get_short_help_str()
    assert str(command(verb).help).partition("\n\n")[0] == listed
    assert CliRunner().invoke(app, [verb, "--help"]).exit_code == 0


def test_status_imports_nothing_that_it_does_not_need() -> None:
    done = started("status local", "pydantic", "rich.", "plotext", "pulumi", "infra.preview")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("local: ")
    assert done.stdout.endswith("imported []\n")


def test_flags_and_text_are_what_typer_would_make_of_them() -> None:
    assert started("status local --json").stdout.startswith('{"stack": "local"')
    missing = started("status")
    assert (missing.returncode, "Missing argument 'stack'" in missing.stderr) == (2, True)
