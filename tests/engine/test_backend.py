"""`slipway backend init`: what stops it, and that a moved state is the same, once, and acted on nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from infra.emulators.object_store import ObjectStore
from infra.standins.gcp import schema
from infra.standins.gcp.store import STATE_VARIABLE
from infra.targets.foundation.state_bucket import TARGETS
from tests.engine.clone import ROOT, Clone, said
from tests.engine.google_plugin import write_plugin

STACK = "foundation.us-central1"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    for variable in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "cloud"))
    made = Clone.make(tmp_path / "clone")
    document = yaml.safe_load((ROOT / "stacks" / f"Pulumi.{STACK}.yaml").read_text())
    document["config"]["slipway:project"] = "real-project"
    (made.directory / "stacks" / f"Pulumi.{STACK}.yaml").write_text(yaml.safe_dump(document))
    return made


def test_the_bucket_is_made_first_and_the_engine_works_on_it(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole command; our stand-in is installed under the name of Google's plugin, and the bucket is emulated."""
    bucket = "slipway-state-us-central1-real-project"
    plugins = clone.directory / ".slipway/pulumi-home/plugins"
    write_plugin(plugins / f"resource-gcp-v{schema.version()}", tmp_path / "started", schema.version())
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "emulated-token")
    with ObjectStore(tmp_path / "buckets", ()) as store:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.url.removeprefix("http://"))  # as Go wants it
        done = clone.run("slipway", "backend", "init", STACK)
        assert done.returncode == 0, said(done)
        assert (tmp_path / f"cloud/storage/Bucket/{bucket}.json").exists()
        assert not (tmp_path / "cloud/compute").exists(), "only what the state needs"
        assert f"resources moved to gs://{bucket}" in done.stdout
        assert (tmp_path / "buckets" / bucket / ".pulumi/stacks/slipway" / f"{STACK}.json").is_file()

        assert clone.run("pulumi", "login", f"gs://{bucket}").returncode == 0
        rest = clone.pulumi("up", STACK, "--non-interactive")
        assert rest.returncode == 0, said(rest)
        assert (tmp_path / "cloud/compute").exists()
        again = clone.pulumi("preview", STACK, "--non-interactive", "--expect-no-changes")
        assert again.returncode == 0, said(again)
        assert clone.run("pulumi", "logout").returncode == 0
        local = clone.pulumi("preview", STACK, "--non-interactive", "--json")
        assert local.returncode == 0, said(local)
        assert {step["op"] for step in json.loads(local.stdout)["steps"]} == {"create"}, "the clone's own state again"


def test_state_moves_once_and_the_old_one_is_put_aside(clone: Clone, tmp_path: Path) -> None:
    theirs = tmp_path / "shared"
    theirs.mkdir()
    url = f"file://{theirs}"
    targets = [word for target in TARGETS for word in ("--target", target)]
    first = clone.pulumi("up", STACK, "--non-interactive", *targets)
    assert first.returncode == 0, said(first)
    assert (tmp_path / "cloud/storage/Bucket/slipway-state-us-central1-real-project.json").exists()
    assert not (tmp_path / "cloud/compute").exists()
    before = clone.resources(STACK)

    moved = clone.run("slipway", "backend", "init", STACK, "--to", url)
    assert moved.returncode == 0, said(moved)
    assert f"{STACK}: {len(before)} resources moved to {url}" in moved.stdout
    assert f"pulumi login {url}" in moved.stdout
    there = json.loads((theirs / ".pulumi/stacks/slipway" / f"{STACK}.json").read_text())
    assert [each["urn"] for each in there["checkpoint"]["latest"]["resources"]] == [each["urn"] for each in before]
    ours = clone.directory / ".slipway/state/.pulumi/stacks/slipway"
    assert not (ours / f"{STACK}.json").exists()
    assert (ours / f"{STACK}.json.moved").exists()

    again = clone.run("slipway", "backend", "init", STACK, "--to", url)
    assert again.returncode == 0
    assert "resources moved" not in again.stdout

    aside = ours / f"{STACK}.json.moved"
    state = json.loads(aside.read_text())
    state["checkpoint"]["latest"]["resources"].pop()
    (ours / f"{STACK}.json").write_text(json.dumps(state))
    refused = clone.run("slipway", "backend", "init", STACK, "--to", url)
    assert refused.returncode == 2
    assert f"{url} has another state of stack '{STACK}' already ({len(before)} resources, here {len(before) - 1})" in (
        refused.stderr
    )
    assert (ours / f"{STACK}.json").exists()


def test_bucket_is_not_made_without_what_it_takes(clone: Clone) -> None:
    refused = clone.run("slipway", "backend", "init", STACK)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: Google's provider plugin is not installed; run: pulumi plugin install")
    elsewhere = clone.run("slipway", "backend", "init", "local")
    assert "target local has no bucket for Pulumi's state; name a foundation" in elsewhere.stderr
    (clone.directory / ".slipway/pulumi-home").mkdir(exist_ok=True)
    (clone.directory / ".slipway/pulumi-home/credentials.json").write_text('{"current": "gs://theirs"}')
    assert "the state is no longer in this clone" in clone.run("slipway", "backend", "init", STACK).stderr
