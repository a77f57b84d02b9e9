"""MaxText's fields as a stack may set them."""

from __future__ import annotations

import pytest

from infra.stack_file.maxtext_fields import OWNED, problem, schema
from training import maxtext_config


def test_what_launch_refuses_is_refused_at_preview_already() -> None:
    assert OWNED.keys() >= maxtext_config.OWNED
    assert OWNED.keys() <= schema()["fields"].keys()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("learning_rate", 1),
        ("per_device_batch_size", 2.0),
        ("base_emb_dim", 64.0),
        ("remat_policy", "full"),
        ("attention", "dot_product"),
        ("enable_tensorboard", True),
    ],
)
def test_values_that_maxtext_takes(key: str, value: object) -> None:
    assert problem(key, value) is None


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("attention", "banana", "training.attention is 'banana'; allowed: autoselected, "),
        ("remat_policy", "banana", "training.remat_policy is 'banana'; allowed: custom, full, "),
        (
            "model_name",
            "lama2-7b",
            "training.model_name is 'lama2-7b'; nearest of 87 in training/maxtext_schema.json: llama2-7b, ",
        ),
        ("base_emb_dim", True, "training.base_emb_dim is True; MaxText expects integer"),
        ("enable_tensorboard", "yes", "training.enable_tensorboard is 'yes'; MaxText expects boolean"),
        ("zzz", 1, "training key 'zzz' is not a field of MaxText 0.2.5; see training/maxtext_schema.json"),
    ],
)
def test_values_that_it_would_refuse_on_paid_devices(key: str, value: object, message: str) -> None:
    assert (problem(key, value) or "").startswith(message)
