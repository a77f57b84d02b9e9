"""The smallest model that trains here, and text for it: what runs of tests, soak and benchmarks share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.training.cluster import ROOT
from training.data.identity import read_manifest
from training.run_spec import DataSpec, MaxTextValue

VOCABULARY = 512

TINY: dict[str, MaxTextValue] = {
    "per_device_batch_size": 1,
    "max_target_length": 32,
    "base_emb_dim": 32,
    "base_num_query_heads": 2,
    "base_num_kv_heads": 2,
    "base_mlp_dim": 64,
    "base_num_decoder_layers": 1,
    "scan_layers": False,  # 0.7 s less to trace at each start; tests/engine trains with scans, as stacks do
    "head_dim": 16,
    "vocab_size": VOCABULARY,
    "attention": "dot_product",
    "save_checkpoint_on_start": False,
    "enable_tensorboard": False,
}


def prepared_text(root: Path, directory: Path) -> DataSpec:
    """Sixty documents, one of them held out: written into `root`, prepared into `directory` by training.data itself."""
    words = [f"word{n % 97} and number {n * 7919 % 1000}." for n in range(12000)]
    for document in range(60):
        (root / f"{document}.txt").write_text(" ".join(words[document * 200 : (document + 1) * 200]))
    command = [sys.executable, "-m", "training.data.prepare", f"{root}/*.txt", "--out", str(directory)]
    command += ["--vocab-size", str(VOCABULARY), "--record-bytes", "512", "--heldout-fraction", "0.02"]
    subprocess.run([*command, "--processes", "1"], cwd=ROOT, check=True, capture_output=True)
    return DataSpec(str(directory), read_manifest(directory).content, 2)
