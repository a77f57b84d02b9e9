"""A stack file means to us what it means to the real engine: `pulumi config --json` beside our own reading."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from infra.paths import ROOT
from infra.stack_file import stack_yaml
from infra.stack_file.settings import SettingsError, from_engine, from_text
from infra.targets.tpu_vm.settings import TpuVmSettings
from tests.engine.clone import Clone, said

SCALARS = (
    *("1", "-1", "+5", "010", "0o17", "0x1F", "0b11", "1_000", "-0x10", "08", "1__0", "0", "-0", "0_7", "1_"),
    *("18446744073709551615", "99999999999999999999", "-9223372036854775808", "-9223372036854775809"),
    *(
        "1.5",
        "6.0e-3",
        "1e3",
        "400.0",
        ".5",
        "1.",
        "-.5",
        "1e+25",
        "1E5",
        "1.e2",
        ".5e1",
        "1e",
        "1.5.2",
        "+.5",
        "1_0.5",
    ),
    *("true", "True", "TRUE", "tRue", "false", "yes", "no", "on", "off", "y", "n", "1:30", "12:30:45", "=", "<"),
    *("2026-12-01", "2026-12-01T06:00:00Z", "2026-1-2T3:4:5Z", "2026-12-01 06:00:00", "2026-12-01t06:00:00+02:00"),
    *("2026-13-01", "2026-12-01T06:00", "'2026-12-01'", "'12'", '"1e3"', "'true'", "!!str 12", "!!float 3", "v6e-8"),
    *("[1, 1e3, yes, null, '2', 1.0]", "{a: 1.0, b: [true, no], c: {d: ~}}", "{1: x, true: y}", "[2026-12-01]"),
    *(
        "|\n    two\n    lines",
        ">-\n    one\n    line",
        "&x {a: 1}",
        "{<<: {a: 1, b: 2}, b: 3}",
        "{<<: [{a: 1}, {a: 2}]}",
    ),
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without a schema, so that any key has any value."""
    directory = tmp_path_factory.mktemp("engine")
    (directory / "state").mkdir()
    (directory / "Pulumi.yaml").write_text("name: slipway\nruntime: python\n")
    pulumi(directory, "stack", "init", "s")
    return directory


def pulumi(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(directory),
        "PULUMI_BACKEND_URL": f"file://{directory}/state",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    binary = Path((ROOT / ".venv" / "engine-path").read_text().strip()) / "pulumi"
    command = [binary, *arguments, "--non-interactive"]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def config_of_engine(directory: Path, text: str) -> dict[str, str]:
    (directory / "Pulumi.s.yaml").write_text(text)
    done = pulumi(directory, "config", "--stack", "s", "--json")
    assert done.returncode == 0, said(done)
    return {key: value["value"] for key, value in json.loads(done.stdout).items()}


def test_every_spelling_of_a_value_is_read_as_the_engine_reads_it(engine: Path) -> None:
    text = "config:\n" + "".join(f"  slipway:k{number}: {value}\n" for number, value in enumerate(SCALARS))
    theirs = config_of_engine(engine, text)
    ours = stack_yaml.written(text)
    for number, spelled in enumerate(SCALARS):
        own, engines = ours[f"k{number}"], theirs[f"slipway:k{number}"]
        assert own == (json.loads(engines) if isinstance(own, dict | list) else engines), spelled


@pytest.mark.parametrize(
    "text",
    [
        "config: {'slipway:a': 1, 'slipway:a': 2}",
        "config: {'slipway:a:b': 1}",
        "config: {'slipway:a': .nan}",
        "config: {'slipway:a': [.inf]}",
        "config: [1]",
        "config: {'slipway:a': &x [*x]}",
        "config: {'slipway:a': {<<: 3}}",
        "a: [",
    ],
)
def test_what_the_engine_refuses_we_refuse(engine: Path, text: str) -> None:
    (engine / "Pulumi.s.yaml").write_text(text)
    assert pulumi(engine, "config", "--stack", "s", "--json").returncode != 0
    with pytest.raises(stack_yaml.StackFileError):
        stack_yaml.written(text)


def test_a_time_that_yaml_has_read_already_is_one_to_both(engine: Path) -> None:
    """The incident: `valid_until: 2026-12-01T06:00:00Z` without quotes previewed here and not there."""
    shipped = (ROOT / "stacks" / "Pulumi.v6e-32.yaml").read_text()
    text = shipped + "  slipway:valid_until: 2126-12-01T06:00:00Z\n"
    ours, theirs = from_text("v6e-32", text), from_engine("v6e-32", config_of_engine(engine, text), (), text)
    assert isinstance(ours, TpuVmSettings)
    assert ours == theirs
    assert ours.valid_until == "2126-12-01T06:00:00Z"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("clone") / "stack-yaml")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("slipway:coordinator_port: 0", "unknown key 'coordinator_port'"),  # the schema's default: not told apart
        ("slipway:secrets: [wandb, huggingface]", "unknown key 'secrets'"),
        ("slipway:config:slices: 2", "has the key 'slipway:config:slices'; write `slipway:slices`"),
        ("slices: 2", "has the key 'slices'; write it with its namespace: `slipway:slices`"),
        ("slipwy:tier: spot", "has the key 'slipwy:tier'; write `slipway:tier`"),
    ],
)
def test_the_engines_preview_refuses_what_our_command_refuses(clone: Clone, line: str, sentence: str) -> None:
    path = clone.directory / "stacks" / "Pulumi.v6e-32.yaml"
    shipped = path.read_text()
    path.write_text(f"{shipped}  {line}\n")
    try:
        with pytest.raises(SettingsError, match=re.escape(sentence)):
            from_text("v6e-32", path.read_text())
        done = clone.pulumi("preview", "v6e-32")
    finally:
        path.write_text(shipped)
    assert done.returncode != 0
    assert sentence in said(done)


def test_an_encrypted_value_is_refused_by_both(clone: Clone) -> None:
    path = clone.directory / "stacks" / "Pulumi.v6e-32.yaml"
    shipped = path.read_text()
    try:
        done = clone.run("pulumi", "config", "set", "--secret", "owner", "me@example.com", "--stack", "v6e-32")
        assert done.returncode == 0, said(done)
        with pytest.raises(SettingsError, match="has `slipway:owner` encrypted; a stack file keeps no secret"):
            from_text("v6e-32", path.read_text())
        preview = clone.pulumi("preview", "v6e-32")
    finally:
        path.write_text(shipped)
    assert "has `slipway:owner` encrypted; a stack file keeps no secret" in said(preview)
