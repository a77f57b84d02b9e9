"""Tests start no plugin of Google's that this machine happens to have, and heed no variable of its user's shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra.engine import google_plugin
from infra.standins.gcp import schema
from tests.clean_environment import PREFIXES, clean
from tests.engine.clone import Clone
from tests.engine.google_plugin import starts, write_executable, write_plugin
from tests.engine.project import ROOT, Project

VERSION = schema.version()
# Of each kind of test one that a plugin, an account or a leftover variable has changed.
TESTS = (
    "tests/engine/test_foundation.py::test_shipped_foundation_previews_without_an_account_and_goes_no_further",
    "tests/engine/test_doctor.py::test_this_machine_needs_no_account",
    "tests/engine/test_gcp_standin.py::test_only_previews_where_no_directory_is_named",
)
LEFT_OVER = {
    "SLIPWAY_STANDIN_STATE": "/nowhere",
    "SLIPWAY_TPU_ENDPOINT": "http://127.0.0.1:1",
    "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1",
    "GOOGLE_PROJECT": "somebody-elses",
    "GOOGLE_OAUTH_ACCESS_TOKEN": "real",
    "CLOUDSDK_CORE_PROJECT": "somebody-elses",
    "PULUMI_STACK": "somebody-elses",
    "KUBECONFIG": "/somebody-elses",
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("answers", [VERSION, None], ids=["a plugin", "rubbish"])
def test_tests_pass_and_start_no_plugin_that_is_on_path_and_in_the_home(tmp_path: Path, answers: str | None) -> None:
    log, home = tmp_path / "started", tmp_path / "home"
    folders = (tmp_path / "bin", home / ".pulumi" / "plugins" / f"resource-gcp-v{VERSION}")
    for folder in folders:
        if answers:
            write_plugin(folder, log, answers)
        else:
            write_executable(folder, f"echo started >>'{log}'; echo hello")
    environment = (
        os.environ
        | LEFT_OVER
        | {
            "PATH": f"{folders[0]}:{os.environ['PATH']}",
            "PULUMI_HOME": str(home / ".pulumi"),
        }
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert not log.exists(), starts(log) if answers else log.read_text()


def test_every_environment_that_tests_build_is_clean(tmp_path: Path) -> None:
    """What this process has is clean, so what is built of it is; but for what a builder sets itself."""
    for environment in (dict(os.environ), Clone(tmp_path).environment, Project(tmp_path).environment):
        leaked = {name for name in environment if name.startswith(PREFIXES) and name in LEFT_OVER}
        assert leaked == set()
        assert google_plugin.choose(environment, VERSION) == google_plugin.Choice(None)
        assert "PULUMI_HOME" in environment, "without it the engine reads the home of the password database"


def test_a_folder_with_a_plugin_keeps_its_other_tools(tmp_path: Path) -> None:
    folder, scratch = tmp_path / "bin", tmp_path / "scratch"
    scratch.mkdir()
    write_executable(folder, "exit 1")
    (folder / "tool").write_text("#!/bin/sh\necho works\n")
    (folder / "tool").chmod(0o755)
    environment = {"PATH": str(folder), "SLIPWAY_GOLDEN": "1", **LEFT_OVER}
    clean(environment, scratch)
    assert set(environment) == {"PATH", "PULUMI_HOME", "SLIPWAY_GOLDEN"}
    assert google_plugin.choose(environment, VERSION) == google_plugin.Choice(None)
    assert subprocess.run(["tool"], env=environment, capture_output=True, text=True, check=True).stdout == "works\n"
