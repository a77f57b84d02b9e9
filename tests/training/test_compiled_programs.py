"""Every host keeps what it has compiled, though JAX has the first one alone do so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.cluster import ROOT, plain_environment

HOST = """
import sys
import jax
from jax._src import distributed
from training import compiled_programs
directory, index = sys.argv[1:]
jax.config.update("jax_compilation_cache_dir", directory)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
compiled_programs.kept_by_every_host()
distributed.global_state.process_id = int(index)  # what JAX looks at before it keeps a program
jax.jit(lambda x: x * 3)(2.0)
"""


@pytest.mark.parametrize("index", [0, 1])
def test_a_host_of_any_index_keeps_its_programs(tmp_path: Path, index: int) -> None:
    command = [sys.executable, "-c", HOST, str(tmp_path), str(index)]
    subprocess.run(command, cwd=ROOT, env=plain_environment(), check=True)
    assert list(tmp_path.iterdir()), "nothing is kept"
