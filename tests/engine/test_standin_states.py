"""Whose resources the stand-in for Google's plugin touches: its own, and those of the directory that it is given.

A state that Google's plugin wrote is previewed without a change, and nothing of it is ever read, changed or dropped.
"""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml

from infra.standins.gcp.store import STATE_VARIABLE
from tests.engine.clone import ROOT, Clone, said
from tests.engine.google_state import as_google_writes, text
from tests.golden_files import GOLDEN, check_golden

STACK = "foundation.mine"
STATE = "google-plugin-state.json"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("states") / "clone")


def write(clone: Clone, **settings: Any) -> None:
    document = yaml.safe_load((ROOT / "stacks" / "Pulumi.foundation.us-central1.yaml").read_text())
    values = {"project": "real-project", "budget_usd": 500, "budget_billing_account": "012345-6789AB-CDEF01"}
    document["config"] |= {f"slipway:{key}": value for key, value in (values | settings).items()}
    (clone.directory / "stacks" / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump(document))


def pulumi(clone: Clone, *arguments: str) -> CompletedProcess[str]:
    return clone.run("pulumi", *arguments, "--stack", STACK, "--non-interactive", "--color", "never")


def exported(clone: Clone) -> dict[str, Any]:
    return json.loads(pulumi(clone, "stack", "export", "--show-secrets").stdout)


def resources(clone: Clone) -> dict[str, dict[str, Any]]:
    """What the state says that each of Google's resources is, by URN."""
    every = exported(clone)["deployment"].get("resources") or []
    return {
        each["urn"]: {key: each[key] for key in ("type", "id", "inputs", "outputs")}
        for each in every
        if each["type"].startswith("gcp:")
    }


def take_over_googles_state(clone: Clone) -> dict[str, dict[str, Any]]:
    """The state of the stack is the one that Google's plugin wrote; returns its resources."""
    write(clone)
    imported = pulumi(clone, "stack", "import", "--file", str(GOLDEN / STATE))
    assert imported.returncode == 0, said(imported)
    return resources(clone)


def changes(clone: Clone) -> dict[str, tuple[str, list[str]]]:
    """What a preview would do to which resource, and because of which inputs."""
    preview = pulumi(clone, "preview", "--json")
    assert preview.returncode == 0, said(preview)
    return {
        step["urn"].rpartition("::")[2]: (step["op"], sorted(step.get("detailedDiff") or {}))
        for step in json.loads(preview.stdout)["steps"]
        if step["op"] != "same"
    }


@pytest.fixture(autouse=True)
def cloud(clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of the stand-in that has made nothing yet, and no stack that another test has deployed."""
    clone.forget()
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "cloud"))
    return tmp_path / "cloud"


def test_what_the_stand_in_made_is_gone_with_its_file_and_another_directory_is_refused(
    clone: Clone, cloud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(clone)
    up = pulumi(clone, "up", "--yes", "--skip-preview")
    assert up.returncode == 0, said(up)
    made = resources(clone)
    check_golden(STATE, text(as_google_writes(exported(clone))))

    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "another"))
    refreshed = pulumi(clone, "refresh", "--yes", "--skip-preview")
    assert refreshed.returncode != 0
    assert f"was made in the stand-in's directory {cloud}, and {STATE_VARIABLE} is {tmp_path / 'another'}; " in said(
        refreshed
    )
    assert f"Run `export {STATE_VARIABLE}={cloud}`" in said(refreshed)
    assert resources(clone) == made

    monkeypatch.setenv(STATE_VARIABLE, str(cloud))
    (network,) = cloud.glob("compute/Network/*.json")
    network.unlink()
    refreshed = pulumi(clone, "refresh", "--yes", "--skip-preview")
    assert refreshed.returncode == 0, said(refreshed)
    assert [made[urn]["type"] for urn in set(made) - set(resources(clone))] == ["gcp:compute/network:Network"]


def test_a_variable_left_in_the_shell_takes_nothing_out_of_googles_state(clone: Clone) -> None:
    state = take_over_googles_state(clone)
    write(clone, soft_delete_days=30)  # something for `up` to do
    for command in ("refresh --skip-preview", "up --skip-preview --refresh", "up", "destroy --exclude-protected"):
        done = pulumi(clone, *command.split(), "--yes")
        assert done.returncode != 0, said(done)
        assert "was not made by this stand-in for Google's plugin, so it may be real; nothing was read" in said(done)
        assert (
            f"Run `unset {STATE_VARIABLE}` and install the official plugin: pulumi plugin install resource gcp"
        ) in said(done)
        assert "Traceback" not in said(done)
        assert resources(clone) == state, command


def test_a_state_that_googles_plugin_wrote_previews_without_a_change(
    clone: Clone, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(STATE_VARIABLE)
    state = take_over_googles_state(clone)
    (key,) = [each for each in state.values() if each["type"] == "gcp:kms/cryptoKey:CryptoKey"]
    assert key["inputs"]["__defaults"] == ["purpose"]
    assert changes(clone) == {}

    write(clone, soft_delete_days=30)
    assert changes(clone) == {
        bucket: ("update", ["softDeletePolicy.retentionDurationSeconds"])
        for bucket in ("checkpoints", "data", "artifacts", "state")
    }
    write(clone, egress="nat")
    assert {what for what, _ in changes(clone).values()} == {"create"}
