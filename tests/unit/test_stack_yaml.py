"""Both borders, the stack file's text and what the engine makes of it, give the same settings or both refuse."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from infra.stack_file import stack_yaml
from infra.stack_file.settings import SettingsError, StackSettings, from_engine, from_text, stack_names
from infra.stack_file.stack_yaml import NAMESPACE, StackFileError
from tests.suite.soak import cases
from tests.unit.test_settings import LOCAL
from tests.unit.test_settings_fuzz import mutated

CASES = cases(100, 300)
SPELLED = (
    *("1e3", "010", "yes", "true", "True", "~", "", "2126-12-01", "'5'", "1.0", "-3"),
    *("[1, 2]", "{a: 1}", "[]", "{}"),
)
SCHEMA = stack_yaml.declared()
KEYS = sorted(SCHEMA)


def handed_over(text: str) -> dict[str, str]:
    """What the engine makes of a stack file, defaults included (tests/engine/test_stack_yaml.py holds it to that).

    Text in the place of an object or a list it refuses itself, and the other way round.
    """
    values: dict[str, Any] = {name: declared["default"] for name, declared in SCHEMA.items() if "default" in declared}
    for name, value in stack_yaml.written(text).items():
        if name in SCHEMA and isinstance(value, str) == (SCHEMA[name]["type"] in ("object", "array")):
            raise StackFileError(f"configuration key {name} must be of another type")
        values[name] = value
    return {
        NAMESPACE + name: json.dumps(value) if isinstance(value, dict | list) else stack_yaml.as_text(value)
        for name, value in values.items()
    }


def read(text: str) -> StackSettings | str:
    try:
        return from_text("local", text)
    except SettingsError as error:
        assert "\n" not in str(error)
        return str(error)


def read_of_engine(text: str, known: str | None) -> StackSettings | str:
    try:
        return from_engine("local", handed_over(text), (), known)
    except (SettingsError, StackFileError) as error:
        return str(error)


def check_both_agree(text: str) -> None:
    ours = read(text)
    theirs = read_of_engine(text, text)
    assert (ours == theirs) or (isinstance(ours, str) and isinstance(theirs, str)), text
    alone = read_of_engine(text, None)  # as with a configuration file that is elsewhere
    if isinstance(ours, str) and "unknown key" not in ours and "on this machine" not in ours:
        assert isinstance(alone, str), (text, ours)


@pytest.mark.sample(1)
@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_values_of_every_type(case: tuple[dict[str, Any], set[str]]) -> None:
    stack = {NAMESPACE + key: value for key, value in case[0].items()}
    check_both_agree(yaml.safe_dump({"config": stack}, allow_unicode=True))


@pytest.mark.sample(1)
@settings(max_examples=CASES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(SPELLED), min_size=1, max_size=2))
@example({"run_name": "3"})  # each of these one border took and the other refused
@example({"run_name": "~"})
@example({"data": "yes"})
@example({"steps": "true"})
@example({"steps": "' 12'"})
@example({"data_options": "''"})
@example({"training": "'{}'"})
@example({"training": "{learning_rate: 6e-3}"})
@example({"coordinator_port": "{secure: text}"})
def test_spellings_of_every_key(keys: dict[str, str]) -> None:
    own = yaml.safe_load(LOCAL)["config"]
    kept = {key: value for key, value in own.items() if key.removeprefix(NAMESPACE) not in keys}
    lines = "".join(f"  {NAMESPACE}{key}: {value}\n" for key, value in keys.items())
    check_both_agree(yaml.safe_dump({"config": kept}) + lines)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("slipway:steps: ' 12'", "steps is ' 12'; write a whole number (stacks/Pulumi.local.yaml)"),
        ("slipway:steps:", "steps is ''; write a whole number (stacks/Pulumi.local.yaml)"),
        ("slipway:data: [a]", "data is ['a']; write one value (stacks/Pulumi.local.yaml)"),
        (
            "slipway:training: many",
            "training is 'many'; write a mapping, one `key: value` per line below `slipway:training:` "
            "(stacks/Pulumi.local.yaml)",
        ),
        (
            "slipway:training: {learning_rate: .nan}",
            "stacks/Pulumi.local.yaml has nan below `slipway:training`; write a number",
        ),
        (
            "slipway:data: {secure: v1:abc}",
            "stacks/Pulumi.local.yaml has `slipway:data` encrypted; a stack file keeps no ",
        ),
        ("slipway:training: &x {a: *x}", "stacks/Pulumi.local.yaml is not YAML: line "),
        ("slipway:data: !env HOME", "has the tag !env; leave it out"),
        ("slipway:training: {[a, b]: 1}", " is a key and no single value"),
        ("slipway:training: {<<: 3}", " is merged with `<<` and no mapping"),
        ("data: x", "stacks/Pulumi.local.yaml has the key 'data'; write it with its namespace: `slipway:data`"),
    ],
)
def test_what_a_stack_file_may_not_say_is_a_sentence(line: str, sentence: str) -> None:
    key = line.partition(": ")[0].rstrip(":")
    own = {name: value for name, value in yaml.safe_load(LOCAL)["config"].items() if name != key}
    said = read(yaml.safe_dump({"config": copy.deepcopy(own)}) + f"  {line}\n")
    assert isinstance(said, str) and sentence in said


def test_a_secret_of_the_engines_is_refused() -> None:
    with pytest.raises(SettingsError, match="has `slipway:data` encrypted"):
        from_engine("local", handed_over(LOCAL), ["slipway:data"])


@pytest.mark.parametrize(
    ("key", "text", "sentence"),
    [
        (
            "training",
            "many",
            "training is 'many'; write a mapping, one `key: value` per line below `slipway:training:`",
        ),
        ("training", "{", "training is '{'; write a mapping, one `key: value` per line below `slipway:training:`"),
        ("zones", "us-east5-b", "zones is 'us-east5-b'; write a list, one `- value` per line below `slipway:zones:`"),
    ],
)
def test_text_that_the_engine_has_where_a_list_or_a_mapping_belongs_is_said_as_it_is(
    key: str, text: str, sentence: str
) -> None:
    """`pulumi config set slipway:zones us-east5-b` hands it over like that, with no stack file to look into."""
    with pytest.raises(SettingsError) as caught:
        from_engine("local", handed_over(LOCAL) | {NAMESPACE + key: text})
    assert str(caught.value) == f"{sentence} (stacks/Pulumi.local.yaml)"


def test_aliases_of_aliases_end() -> None:
    levels = ["  a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    text = "config:\n" + "\n".join(level.replace("  a", "  slipway:a", 1) for level in levels) + "\n"
    assert "stands for more than 100,000 values; write fewer aliases" in str(read(text))


@pytest.mark.parametrize("stack", stack_names())
def test_numbers_and_lists_of_shipped_stacks_mean_what_yaml_says(stack: str) -> None:
    """No shipped stack leans on a difference between YAML 1.1, which other tools read, and the engine's."""
    text = stack_yaml.ROOT.joinpath("stacks", f"Pulumi.{stack}.yaml").read_text()
    assert stack_yaml.document(text)["config"] == yaml.safe_load(text)["config"]
