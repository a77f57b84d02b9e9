"""Modules that wait until they are used: small ones of this file, and those that MaxText imports."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.training.cluster import ROOT, plain_environment
from training.deferred_imports import deferred, waiting
from training.maxtext_imports import WAIT

FILES = {
    "slow/__init__.py": "import time\ntime.sleep(0.1)\nwith open(__file__ + '.log', 'a') as log:\n    log.write('x')\n"
    "SIZES = {'small': 1}\nname = 'slow'\n",
    "slow/part.py": "inside = 7\n",
    "slow/other.py": "inside = 8\n",
    "plain.py": "WORDS = {}\n",
    "takes.py": "import slow\nfrom slow import SIZES\nfrom slow.part import inside\nfrom plain import WORDS\n"
    "def size(): return SIZES['small']\n",
    "takes_more.py": "from slow import name\n",
    "takes_submodule.py": "from slow import other\n",
    "replaced.py": "import sys, types\nreal = types.ModuleType('replaced')\nreal.word = 'real'\n"
    "sys.modules['replaced'] = real\n",
    "broken.py": "import json\nraise OSError('no such disk')\n",
}


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def loads(directory: Path) -> int:
    log = directory / "slow" / "__init__.py.log"
    return len(log.read_text()) if log.exists() else 0


def test_a_module_waits_for_its_first_use_and_its_submodules_do_not(modules: Path) -> None:
    with deferred({"slow": ("SIZES",), "plain": ("WORDS",)}):
        takes = importlib.import_module("takes")
    assert (takes.inside, takes.slow.__name__, takes.slow.__file__) == (7, "slow", str(modules / "slow/__init__.py"))
    assert (loads(modules), waiting()) == (0, ["plain", "slow"])
    assert takes.size() == 1
    assert (loads(modules), waiting()) == (1, ["plain"])
    assert takes.slow.name == "slow" and takes.SIZES == takes.slow.SIZES and len(takes.SIZES) == 1
    with pytest.raises(AttributeError, match="module 'slow' has no attribute 'nothing'"):
        _ = takes.slow.nothing
    assert loads(modules) == 1


def test_who_takes_anything_else_of_it_loads_it_and_a_submodule_may_wait_too(modules: Path) -> None:
    with deferred({"slow": (), "slow.other": ()}):
        other = importlib.import_module("takes_submodule").other
        assert (loads(modules), waiting()) == (0, ["slow", "slow.other"])
        assert importlib.import_module("takes_more").name == "slow"
    assert (loads(modules), waiting()) == (1, ["slow.other"])
    assert other.inside == 8


def test_what_was_not_imported_inside_is_imported_as_ever(modules: Path) -> None:
    with deferred({"slow": ()}):
        pass
    importlib.import_module("slow")
    assert (loads(modules), waiting()) == (1, [])


def test_a_module_may_put_another_into_its_place(modules: Path) -> None:
    with deferred({"replaced": ()}):
        taken = importlib.import_module("replaced")
    assert taken.word == "real" == sys.modules["replaced"].word
    assert waiting() == []


def test_what_is_not_there_cannot_be_imported_and_what_is_broken_says_so_at_each_use(modules: Path) -> None:
    with deferred({"not_there": (), "broken": ()}):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("not_there")
        broken = importlib.import_module("broken")
    for _ in range(2):
        with pytest.raises(OSError, match="no such disk"):
            broken.word()


def test_threads_that_use_it_at_once_load_it_once(modules: Path) -> None:
    with deferred({"slow": ()}):
        slow = importlib.import_module("slow")
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: slow.name, range(8))) == {"slow"}
    assert loads(modules) == 1


USES = """
import json, sys
from pathlib import Path
import jax
import jax.numpy as jnp
from training.deferred_imports import waiting
from training.maxtext_imports import quick
with quick():
    from maxtext.trainers.pre_train import train
scratch = Path(sys.argv[1])
wait = waiting()

import pathwaysutils._initialize
from maxtext.checkpoint_conversion.utils import load_dynamic
from maxtext.common import gcloud_stub
from maxtext.input_pipeline import tokenizer
from maxtext.layers import attention_op, engram, moe
from maxtext.utils import gcs_utils

def hugging_face():
    from tokenizers import Tokenizer, models, pre_tokenizers
    words = Tokenizer(models.WordLevel({"no": 0, "so": 1, "it": 2, "goes": 3}, unk_token="no"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = tokenizer.transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="no")
    fast.save_pretrained(scratch / "tokenizer")
    built = tokenizer.build_tokenizer(str(scratch / "tokenizer"), "huggingface", False, False, "")
    return list(built.encode("so it goes"))

def written():
    writer = gcloud_stub.writer.SummaryWriter(str(scratch / "curves"))
    writer.add_scalar("loss", 1.0, 0)
    writer.close()
    assert type(writer) is sys.modules["tensorboardX"].SummaryWriter
    return len(list((scratch / "curves").iterdir()))

@jax.jit
def experts(rows, weights):  # loaded while JAX traces
    return moe.tokamax.ragged_dot(lhs=rows, rhs=weights, group_sizes=jnp.array([2, 1]), implementation="xla")

print("answer: " + json.dumps({
    "wait": wait,
    "tokens": hugging_face(),
    "hidden": load_dynamic.HF_MODEL_CONFIGS["llama3.1-8b"].to_dict()["hidden_size"],
    "experts": experts(jnp.ones((3, 4)), jnp.ones((2, 4, 5))).tolist(),
    "causal": attention_op.tokamax_attention_base.Mask(is_causal=True).is_causal,
    "triton": attention_op.tokamax_pallas_triton.PallasTritonFlashAttention.__name__,
    "prime": engram.sympy.isprime(7),
    "curves": written(),
    "bucket": [gcs_utils.storage.Client.__name__, gcs_utils.storage.transfer_manager.upload_many.__name__],
    "pathways": sys.modules["pathwaysutils._initialize"].profiling.monkey_patch_jax.__name__,
    "left": waiting(),
}))
"""


def test_what_maxtext_imports_and_few_runs_use_is_there_when_it_is_used(tmp_path: Path) -> None:
    environ = plain_environment() | {"JAX_PLATFORMS": "cpu", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", USES, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    last = (done.stdout.splitlines() or [""])[-1]
    assert last.startswith("answer: "), done.stdout + done.stderr[-3000:]
    assert json.loads(last.removeprefix("answer: ")) == {
        "wait": sorted(WAIT),
        "tokens": [1, 2, 3],
        "hidden": 4096,
        "experts": [[4.0] * 5] * 3,
        "causal": True,
        "triton": "PallasTritonFlashAttention",
        "prime": True,
        "curves": 1,
        "bucket": ["Client", "upload_many"],
        "pathways": "monkey_patch_jax",
        "left": [],
    }
