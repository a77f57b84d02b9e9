"""Stack files in, settings or one clear sentence out."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from infra.paths import STACKS
from infra.stack_file.settings import (
    OnDestroy,
    Settings,
    SettingsError,
    Target,
    check,
    from_engine,
    from_file,
    from_text,
)
from infra.targets.local.settings import LocalSettings

LOCAL = (STACKS / "Pulumi.local.yaml").read_text()


def values(**changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(LOCAL)["config"]
    base = {key.removeprefix("slipway:"): value for key, value in config.items()}
    training = base["training"] | changes.pop("training", {})
    merged = base | changes | {"training": training}
    return {key: value for key, value in merged.items() if value is not None}


def error_of(**changes: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        check("local", values(**changes))
    return str(caught.value)


def test_value_with_a_line_break_does_not_break_the_sentence() -> None:
    with pytest.raises(SettingsError) as raised:
        check("local", {"target": "local", "accelerator": "\n", "steps": 1})
    assert "\n" not in str(raised.value)


def test_the_shipped_local_stack() -> None:
    settings = from_file("local")
    assert isinstance(settings, LocalSettings)
    assert settings.target is Target.LOCAL
    assert (settings.row.hosts, settings.row.devices_per_host) == (2, 4)
    assert settings.sources == ("stdlib",)
    assert settings.on_destroy is OnDestroy.KEEP


def test_engine_and_file_read_the_same_settings() -> None:
    import json

    config: dict[str, Any] = yaml.safe_load(LOCAL)["config"]
    engine = {key: json.dumps(value) if isinstance(value, dict) else str(value) for key, value in config.items()}
    # What the engine fills in from the defaults of Pulumi.yaml's schema.
    engine |= {
        "slipway:run_name": "",
        "slipway:data_options": "{}",
        "slipway:coordinator_port": "0",
        "gcp:project": "p",
    }
    assert from_engine("local", engine) == from_text("local", LOCAL)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stps": 3}, "unknown key 'stps' in stacks/Pulumi.local.yaml; nearest: steps"),
        ({"steps": None}, "key 'steps' is missing in stacks/Pulumi.local.yaml; add `slipway:steps: ...`"),
        ({"steps": "many"}, "steps is 'many' in stacks/Pulumi.local.yaml: input should be a valid integer"),
        ({"steps": 0}, "steps is 0 in stacks/Pulumi.local.yaml: input should be greater than or equal to 1"),
        ({"target": "moon"}, "target is 'moon'"),
        ({"accelerator": "cpu-9"}, "accelerator 'cpu-9' is not in infra/hardware.yaml; nearest: cpu-"),
        ({"data_options": {"vocab": 8}}, "unknown key 'data_options.vocab' in stacks/Pulumi.local.yaml; nearest: voc"),
        ({"data": " ; "}, "data names no input"),
        ({"run_name": "a/b"}, "run_name is 'a/b'"),
        ({"accelerator": "v6e-8"}, "accelerator 'v6e-8' is not on this machine; target local takes cpu-N rows"),
        ({"runs": "gs://bucket/r"}, "runs is 'gs://bucket/r'; hosts on this machine use directories, so give one"),
        ({"artifacts": "gs://bucket"}, "artifacts is 'gs://bucket'; hosts on this machine use directories, so"),
        ({"training": {"per_devise_batch_size": 3}}, "nearest: training.per_device_batch_size"),
        ({"training": {"base_emb_dim": "wide"}}, "training.base_emb_dim is 'wide'; MaxText expects integer"),
        ({"training": {"run_name": "x"}}, "training.run_name is set by Slipway: set `run_name` of the stack"),
        ({"training": {"ici_fsdp_parallelism": 3}}, "x ici_fsdp_parallelism 3 is 6, but there are 8"),
        ({"training": {"ici_fsdp_parallelism": -1, "ici_tensor_parallelism": -1}}, "are both -1"),
        ({"training": {"dcn_data_parallelism": 2}}, "dcn_data_parallelism 2 is 2, but there are 1 slices"),
        ({"training": {"per_device_batch_size": 0.5}}, "0.5 x 8 devices does not divide evenly"),
        ({"training": {"learning_rate_schedule_steps": 10}}, "the learning rate is 0; give at least 250"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_that_names_the_key(changes: dict[str, Any], message: str) -> None:
    said = error_of(**changes)
    assert message in said
    assert "\n" not in said


def test_unreadable_stack_files() -> None:
    for text, message in [
        ("a: [", "is not YAML"),
        ("- 1", "has no `config:` mapping"),
        ("config: 3", "has no `config:` mapping"),
    ]:
        with pytest.raises(SettingsError, match=message):
            from_text("local", text)
    with pytest.raises(SettingsError, match=r"stack 'lokal' has no file stacks/Pulumi.lokal.yaml; there are: .*local"):
        from_file("lokal")


@pytest.mark.parametrize("name", ["state", "data", "Local", "a b", "../x"])
def test_names_that_would_collide_or_escape_are_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="cannot name a stack"):
        check(name, values())


def test_settings_are_frozen() -> None:
    from pydantic import ValidationError

    settings: Settings = from_file("local")
    with pytest.raises(ValidationError, match="frozen"):
        settings.steps = 3  # pyright: ignore[reportAttributeAccessIssue]
