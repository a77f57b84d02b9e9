"""How a training imports MaxText, which costs each start of each host seconds: without what hardly any run uses.

Owns the list of what waits until it is used, and what else is left out meanwhile. Refuses to own how a module waits
(training/deferred_imports.py). What changes something when it is imported must not wait: MaxText's Tunix adapter, which
nothing here uses, puts functions of its own into jax.lax.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from training.deferred_imports import deferred

WAIT: Mapping[str, Sequence[str]] = {
    "google.cloud.storage": (),  # what MaxText itself writes into buckets; checkpoints go through gcsfs and TensorStore
    "google.cloud.storage.transfer_manager": (),
    "maxtext.checkpoint_conversion.utils.hf_model_configs": ("HF_MODEL_CONFIGS",),  # weights of Hugging Face
    "pathwaysutils.profiling": (),  # a web server
    "sympy": (),  # Engram layers
    "tensorboardX": (),
    "tensorboardX.writer": (),
    "tokamax": (),  # layers of experts
    "tokamax._src.ops.attention.base": (),  # flash attention on GPUs
    "tokamax._src.ops.attention.pallas_triton": (),
    "transformers": (),  # tokenizers of Hugging Face
}


@contextlib.contextmanager
def quick() -> Iterator[None]:
    """Imports inside are MaxText's. A thread that imports something else meanwhile may find that it waits too."""
    gc.disable()  # what is imported stays, so looking for garbage among it finds none: a sixth of the imports
    BaseModel.model_config["defer_build"] = True  # of a hundred classes one is validated, which inherits the others
    try:
        with deferred(WAIT):
            yield
    finally:
        del BaseModel.model_config["defer_build"]
        gc.freeze()
        gc.enable()
