"""Before any test is collected: the environment of tests/clean_environment.py, for this process and all it starts.

And Hypothesis without a deadline per example: what a loaded machine takes longer for is no failure.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

from tests.clean_environment import clean

settings.register_profile("slipway", deadline=None)
settings.load_profile("slipway")

pytest_plugins = ["tests.suite.plugin"]


def pytest_configure(config: pytest.Config) -> None:
    scratch = tempfile.mkdtemp(prefix="slipway-tests-")
    clean(os.environ, Path(scratch))
    config.add_cleanup(lambda: shutil.rmtree(scratch, ignore_errors=True))
