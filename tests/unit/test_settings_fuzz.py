"""Mutated stack files: each gives valid settings or an error that names the key."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infra.paths import STACKS
from infra.runs import run_plan
from infra.stack_file.settings import SettingsError, check, that_trains
from infra.targets.local.settings import LocalSettings
from tests.suite.soak import cases
from training.run_spec import parse
from training.sharding import resolve_mesh

_CONFIG: dict[str, Any] = yaml.safe_load((STACKS / "Pulumi.local.yaml").read_text())["config"]
BASE = {key.removeprefix("slipway:"): value for key, value in _CONFIG.items()}
CASES = cases(300, 1500)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 5000),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=8),
    st.sampled_from(["stdlib", "synthetic", "cpu-4", "cpu-8", "local", "keep", "full", "dot_product"]),
)
values = st.one_of(scalars, st.lists(scalars, max_size=3), st.dictionaries(st.text(max_size=6), scalars, max_size=2))
names = st.one_of(
    st.sampled_from([*BASE, *LocalSettings.model_fields, "stps", "trainin"]),
    st.text(min_size=1, max_size=10),
)
training_names = st.one_of(
    st.sampled_from(
        [*BASE["training"], "ici_tensor_parallelism", "steps", "remat_policy", "learning_rate_schedule_steps"]
    ),
    st.text(min_size=1, max_size=10),
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[dict[str, Any], set[str]]:
    """A stack's values with one to three keys set, dropped or renamed; and the keys that were touched."""
    stack, touched = copy.deepcopy(BASE), set[str]()
    for _ in range(draw(st.integers(1, 3))):
        inner = draw(st.booleans()) and isinstance(stack.get("training"), dict)
        place: dict[str, Any] = stack["training"] if inner else stack
        key = draw(training_names if inner else names)
        touched.add(key)
        if draw(st.integers(0, 4)) == 0:
            place.pop(key, None)
        else:
            place[key] = draw(values)
    return stack, touched


@pytest.mark.sample(1)
@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_stack_files_are_valid_or_name_the_key(case: tuple[dict[str, Any], set[str]]) -> None:
    stack, touched = case
    try:
        valid = that_trains(check("local", stack))
    except SettingsError as error:
        said = str(error)
        assert "\n" not in said
        named = any(key in said or repr(key)[1:-1] in said for key in touched)
        assert named or _names_a_consequence(said, touched), (said, touched)
        return
    spec = run_plan.run_spec(valid, Path("/runs"), None)
    assert parse(spec.to_yaml()) == spec
    mesh = resolve_mesh(spec.maxtext, valid.row.devices, valid.slices)
    product = 1
    for size in mesh.ici.values():
        product *= size
    assert product == valid.row.devices == spec.devices // spec.slices


def _names_a_consequence(said: str, touched: set[str]) -> bool:
    """A changed size shows up as the mesh, batch or schedule that no longer fits it."""
    consequences = {
        "accelerator": ("parallelism", "devices"),
        "slices": ("parallelism", "slices"),
        "steps": ("learning_rate_schedule_steps",),
        "training": ("parallelism", "per_device_batch_size", "training."),
    }
    words = [word for key in touched for word in consequences.get(key, ())]
    if any(key.endswith("_parallelism") for key in touched):  # one dropped: the product of the others is named
        words.append("ici_fsdp_parallelism")
        words.append("ici_data_parallelism")
    return any(word in said for word in words)
