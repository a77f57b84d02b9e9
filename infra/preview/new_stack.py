"""The text of a new stack file: what a size trains by default, by rule. Pure.

Owns which of the keys it knows a target's file has, and the rule that shipped stacks follow too: the largest model of a
short list whose weights and optimizer leave room in the slice's HBM. Whether it fits is for a compiler to say; these
defaults were not run on real hardware.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from infra import hardware
from infra.hardware import Accelerator
from infra.names import PLACEHOLDER_PROJECT
from infra.stack_file.settings import SettingsError
from infra.stack_file.terms import Terms
from infra.targets import registry
from infra.targets.contract import TargetContract
from infra.targets.registry import Target
from infra.tiers import Tier

# The salt of the empty passphrase, as in every shipped stack: without one, the first command would change the file.
SALT = "v1:zN36BGtrBVI=:v1:lfYQD51tTypdvAZa:aWaSSGYADAuzF4AGrka6BrAIPGZ+lg=="
OWNER = "me@example.com"
_STATE_BYTES = 12  # of a parameter: its float32 weight and Adam's two moments

_PRICE_HEADROOM = 1.25  # what max_usd_per_hour leaves for prices that move


@dataclass(frozen=True)
class Model:
    """`share` is how much of a slice's HBM weights and optimizer may take."""

    name: str
    parameters: float
    share: float


# Largest first. 0.65 is llama2-7b on v5e-8, which the TPU compiler accepts at one sequence of 2,048 tokens a chip.
MODELS = (
    Model("llama2-70b", 70e9, 0.25),
    Model("llama3.1-8b", 8e9, 0.25),
    Model("llama2-7b", 7e9, 0.65),
    Model("qwen3-1.7b", 1.7e9, 0.4),
    Model("qwen3-0.6b", 0.6e9, 1.0),
)


# What hosts without an accelerator train: a step takes a fraction of a second, and a checkpoint is soon there.
_SMALL = (
    ("base_emb_dim", 128),
    ("base_mlp_dim", 512),
    ("base_num_decoder_layers", 2),
    ("base_num_query_heads", 4),
    ("base_num_kv_heads", 4),
    ("head_dim", 32),
    ("per_device_batch_size", 1),
    ("max_target_length", 256),
    ("checkpoint_period", 50),
)


@dataclass(frozen=True)
class NewStack:
    """`tier` as the stack file spells it; zones in the order to try them; `keys` are more of the target's, as YAML."""

    accelerator: str
    zones: tuple[str, ...] = ()
    slices: int = 1
    tier: str = Tier.ON_DEMAND
    variant: str = ""
    project: str = PLACEHOLDER_PROJECT
    owner: str = OWNER
    target: str = ""  # empty: the first that offers the accelerator
    keys: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        variant = self.variant or ("" if self.tier == Tier.ON_DEMAND else self.tier)
        size = self.accelerator if self.slices == 1 else f"{self.accelerator}x{self.slices}"
        target = registry.named(self.target) if self.target else _first_target(hardware.find(self.accelerator))
        begins = (target and target.stacks_begin) or self.target
        named = f"{begins}-{size}" if begins else size
        return f"{named}.{variant}" if variant else named


def text(stack: NewStack) -> str:
    """The file. Raises SentenceError for an accelerator or a target that there is not, and for zones that it lacks."""
    row = hardware.find(stack.accelerator)
    target = registry.named(stack.target) if stack.target else _first_target(row)
    if target is None:
        raise SettingsError(f"target '{stack.target}' is none; write one of: {', '.join(Target)}")
    known: Collection[str] = target.settings().model_fields
    if ("zones" in known) != bool(stack.zones):
        there = ", ".join(row.zones_documented or row.zones) or "no zone that is known"
        needs = "has no zones; leave --zone out" if stack.zones else f"needs --zone; {row.name} is in: {there}"
        raise SettingsError(f"a stack of target {target.name} {needs}")
    size = f"{row.hosts} {'host' if row.hosts == 1 else 'hosts'} x {row.chips_per_host} chips"
    several = stack.slices > 1
    only_previews = "; this one only previews" if stack.project == PLACEHOLDER_PROJECT else ""
    regions = tuple(dict.fromkeys(zone.rpartition("-")[0] for zone in stack.zones)) if "regions" in known else ()
    entries: list[tuple[str, object, str]] = [  # those without a value, or not the target's, are left out
        ("target", target.name, ""),
        ("project", stack.project, "any name" if row.emulated else f"yours{only_previews}"),
        ("owner", stack.owner, "labels what is billed"),
        ("accelerator", stack.accelerator, size + (" a slice" if several else "")),
        ("slices", stack.slices if several else None, f"{row.chips * stack.slices:,} chips"),
        ("zones", None if regions else f"[{', '.join(stack.zones)}]", ""),
        ("regions", f"[{', '.join(regions)}]" if regions else None, ""),
        ("tier", None if stack.tier == Tier.ON_DEMAND else stack.tier, ""),
        ("max_usd_per_hour", _limit(row, stack), ""),
        ("steps", 1000, ""),
        ("data", "synthetic", ""),
        ("fit", "unchecked" if row.emulated else None, "no compiler knows its memory"),
    ]
    own = dict(stack.keys)
    entries = [entry for entry in entries if entry[0] in known and entry[0] not in own and entry[1] is not None]
    entries += [(key, value, "") for key, value in own.items()]
    lines = [_line(f"  slipway:{key}: {value}", note) for key, value, note in entries]
    lines += ["  slipway:training:", *_training(row, stack.slices)]
    return "\n".join((f"encryptionsalt: {SALT}", "config:", *lines)) + "\n"


def _training(row: Accelerator, slices: int) -> list[str]:
    model = model_for(row)
    sized = (
        ("model_name", model.name),
        ("per_device_batch_size", _batch(model, row, slices)),
        ("max_target_length", 2048),
    )
    (first, *others) = (f"    {key}: {value}" for key, value in (_SMALL if row.emulated else sized))
    mesh = "fsdp over the chips of a slice" + (", data parallel over slices" if slices > 1 else "")
    return [_line(first, mesh), *others]


def _first_target(row: Accelerator) -> TargetContract[Any, Any]:
    """Of those that are paid for; one that does not offer the accelerator says so when the file is checked."""
    paid = [target for target in registry.every() if issubclass(target.settings(), Terms)]
    return next((target for target in paid if target.settings().api in row.apis), paid[0])


def model_for(row: Accelerator) -> Model:
    """Slices hold a copy each, so their number does not matter."""
    return next((model for model in MODELS if _taken(model, row) <= model.share), MODELS[-1])


def _batch(model: Model, row: Accelerator, slices: int) -> int:
    """Sequences a device. Gradients cross slices once a step, however large: more work a step hides them.

    Where weights and optimizer take half of the HBM there is no room for that.
    """
    taken = _taken(model, row)
    batch = 1 if taken > 0.1 else 2
    return 4 * batch if slices > 1 and taken < 0.5 else batch


def _taken(model: Model, row: Accelerator) -> float:
    hbm = (row.hbm_gib or 0) * row.chips * 2**30
    return model.parameters * _STATE_BYTES / hbm if hbm else math.inf


def _limit(row: Accelerator, stack: NewStack) -> int | None:
    """The list price with some room, in two digits."""
    price = row.price(stack.zones[0].rpartition("-")[0]) if stack.zones else None
    usd = price and (price.spot_usd if stack.tier == Tier.SPOT else price.on_demand_usd)
    if not usd or stack.tier not in (Tier.ON_DEMAND, Tier.SPOT):
        return None
    hourly = usd * row.chips * stack.slices * _PRICE_HEADROOM
    digit = 10 ** max(0, math.floor(math.log10(hourly)) - 1)
    return math.ceil(hourly / digit) * digit


def _line(text: str, note: str) -> str:
    return f"{text:<37} # {note}" if note else text
