"""What would make a train step fit: the changes worth asking the compiler about, the largest saving first. Pure.

Owns which changes there are and a guess at what each saves, for their order only. Refuses to own whether one is enough:
`slipway fit --levers` asks the compiler.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from infra import hardware
from infra.preview.fit.train_step import TrainStep
from infra.preview.fit.verdict import FitVerdict
from infra.stack_file.settings import SettingsError

# MaxText's policies from the one that keeps most to the one that keeps least, and what a layer keeps of its
# activations, as parts of what `minimal` keeps; measured nowhere, for an order only.
REMAT = (
    ("none", 2.0),
    ("minimal_with_context", 1.1),
    ("minimal", 1.0),
    ("save_dot_except_mlpwi", 0.6),
    ("save_dot_except_mlp", 0.45),
    ("save_qkv_proj", 0.35),
    ("save_out_proj", 0.15),
    ("full", 0.1),
)


@dataclass(frozen=True)
class Lever:
    """`saves_gib` per device is a guess, None where nothing is known to guess from."""

    title: str
    step: TrainStep
    saves_gib: float | None


def ranked(step: TrainStep, verdict: FitVerdict) -> tuple[Lever, ...]:
    """Changes that lower HBM, the largest guessed saving first. Those that cannot be are left out."""
    state = verdict.argument_gib
    activations = verdict.peak_gib - state if state is not None and verdict.peak_gib is not None else None
    levers = [*_remat(step, activations), *_batch(step, activations), *_slice(step, state)]
    return tuple(sorted(levers, key=lambda lever: -(lever.saves_gib or 0)))


def _remat(step: TrainStep, activations: float | None) -> Iterator[Lever]:
    for (today, keeps), (policy, would_keep) in pairwise(REMAT):
        if today == step.remat_policy:
            saves = None if activations is None else activations * (1 - would_keep / keeps)
            yield Lever(f"remat_policy: {policy}", step.changed({"remat_policy": policy}), saves)


def _batch(step: TrainStep, activations: float | None) -> Iterator[Lever]:
    saves = None if activations is None else activations / 2
    for key, least in (("per_device_batch_size", 1), ("max_target_length", 256)):
        now = int(step.number(key))
        if now > least:
            yield Lever(f"{key}: {now // 2}", step.changed({key: now // 2}), saves)
            return


def _slice(step: TrainStep, state: float | None) -> Iterator[Lever]:
    """Twice the chips or more, each with half of weights and optimizer; else twice the slices, sharded over as well."""
    row, slices = step.row, step.workload.slices
    larger = [other for other in hardware.rows(row.family) if other.chips >= 2 * row.chips]
    try:
        if larger:
            chosen = min(larger, key=lambda other: other.chips)
            title, changed = f"accelerator: {chosen.name}", step.changed(accelerator=chosen.name)
            divided = chosen.chips / row.chips
        else:
            title = f"slices: {2 * slices} with dcn_fsdp_parallelism: {2 * slices}"
            sharded = {"dcn_fsdp_parallelism": 2 * slices, "dcn_data_parallelism": 1}
            changed = step.changed(sharded, slices=2 * slices)
            divided = 2 * slices if step.workload.training.get("dcn_fsdp_parallelism", 1) == 1 else 2.0
    except SettingsError:
        return  # the stack's mesh fixes the number of devices
    yield Lever(title, changed, None if state is None else state * (1 - 1 / divided))
