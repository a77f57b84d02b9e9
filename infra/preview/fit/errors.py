"""What is said of a train step that does not compile: one sentence and the keys to change. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

MEMORY_KEYS = ("remat_policy", "per_device_batch_size", "accelerator")
_LENGTH = 300


@dataclass(frozen=True)
class CompileRefusal:
    """`certain`: the same request gets the same answer, so this is a verdict and no failure of ours."""

    reason: str
    keys: tuple[str, ...]
    certain: bool = True


def refusal(error: str, needed_gib: float | None, available_gib: float | None) -> CompileRefusal:
    if needed_gib is not None and available_gib is not None:
        wants = f"the train step wants {needed_gib:.2f} GiB of HBM per device, {available_gib:.2f} are there"
        return CompileRefusal(f"out of memory: {wants} ({needed_gib - available_gib:.2f} too many)", MEMORY_KEYS)
    text = " ".join(error.split())
    for pattern, sentence, keys in _KNOWN:
        if match := re.search(pattern, text):
            return CompileRefusal(sentence.format(*match.groups()), keys)
    return CompileRefusal(f"the compiler failed and said: {text[:_LENGTH]}", (), certain=False)


def no_answer(code: int | None, output: str) -> str:
    """A child that ended without a result."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1][:_LENGTH] if lines else "nothing"
    if "No module named" in last:
        return (
            f"the environment is not whole ({last}); remove it below .slipway/installed/env and run `slipway fit` again"
        )
    if "No space left on device" in output:
        return "no space left on the disk for the compile; free some and run this again"
    if code is not None and code < 0:
        return f"the compile was killed by signal {-code}; was the machine out of memory?"
    return f"the compile ended with code {code} and said: {last}"


# The words of MaxText 0.2.5 and JAX, the sentence for them, and the keys; what is not here is printed as it was said.
_KNOWN = (
    (r"Invalid compile topology: ([^ .]+)", "MaxText knows no slice {0}; choose another accelerator", ("accelerator",)),
    (
        r"is partitioned (\d+) times, but the dimension size is (\d+)",
        "a dimension of {1} cannot be divided over {0} devices; choose a smaller slice or another mesh",
        ("ici_fsdp_parallelism", "ici_tensor_parallelism", "accelerator"),
    ),
    (
        r"model_name.*?Input should be ['\"]",
        "MaxText has no such model; choose a model_name that it lists",
        ("model_name",),
    ),
)
