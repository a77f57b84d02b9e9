"""Incidents that cost money, through the real engine: another endpoint in the shell, what others need in the bucket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts import uses
from infra.artifacts.opening import open_store
from infra.emulated import TPU
from infra.emulators.tpu_api import Cloud, TpuApi
from tests.emulators.instant import INSTANT
from tests.engine import states
from tests.engine.clone import Clone, said
from tests.engine.tpu_cloud import PROJECT, emulated, write

STACK = "v6e-8.incident"
BUCKET = f"gs://slipway-artifacts-us-east5-{PROJECT}"


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("incidents") / "clone")


@pytest.fixture
def api(clone: Clone, tmp_path: Path) -> Iterator[TpuApi]:
    write(clone, STACK, like="v6e-8", project=PROJECT, zones=["us-east5-b"])
    with emulated(tmp_path, ["v6e-8"]) as api:
        yield api


def said_to_hosts() -> list[str]:
    """Bundles that hosts of a request learn when they boot."""
    there = open_store(BUCKET)
    return [there.read(key).decode().strip() for key in there.keys("wanted/")]


def users() -> list[str]:
    return [use.user for use in uses.of_entries(open_store(BUCKET).entries())]


def test_destroy_at_another_endpoint_touches_nothing_and_says_where_to(
    clone: Clone, api: TpuApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six resources were said to be deleted, while the node went on running and billing."""
    up = clone.pulumi("up", STACK)
    assert up.returncode == 0, said(up)
    with TpuApi(Cloud(INSTANT)) as other:
        monkeypatch.setenv(TPU, other.url)
        for verb in ("destroy", "preview", "up"):
            refused = clone.pulumi(verb, STACK)
            assert refused.returncode != 0, said(refused)
            assert f"was made at {api.url}, but {other.url} would be asked now: it was not touched" in said(refused)
        assert other.cloud.ledger.requests == {}
        assert [call.rpc for call in other.calls] == []
    assert len(api.cloud.ledger.nodes) == 1
    monkeypatch.setenv(TPU, api.url)
    destroyed = clone.pulumi("destroy", STACK)
    assert destroyed.returncode == 0, said(destroyed)
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


def test_a_second_clone_neither_takes_nor_deletes_what_the_first_has_unless_it_is_asked_to(
    clone: Clone, api: TpuApi, tmp_path: Path
) -> None:
    """Its `up` took the live request without a word, or was refused, and its `destroy` deleted the first's slice."""
    up = clone.pulumi("up", STACK)
    assert up.returncode == 0, said(up)
    (request,) = api.cloud.ledger.requests.values()
    clone.keep_states(tmp_path / "first")
    clone.forget()  # a second clone of the same files

    refused = clone.pulumi("up", STACK)
    assert refused.returncode != 0
    assert "by me-example-com from another clone or backend, and this state does not know it" in said(refused)
    destroyed = clone.pulumi("destroy", STACK)
    assert destroyed.returncode == 0, said(destroyed)
    assert list(api.cloud.ledger.requests.values()) == [request]

    asked = re.search(r"slipway:take_over: '([-0-9a-f]+)'", said(refused))
    assert asked
    write(clone, STACK, like="v6e-8", project=PROJECT, zones=["us-east5-b"], take_over=asked[1], steps=7)
    up = clone.pulumi("up", STACK)
    assert up.returncode == 0, said(up)
    taken = r"is taken over, made (just now|\w+ ago) by me-example-com from another clone or backend"
    assert re.search(taken, said(up))
    assert list(api.cloud.ledger.requests.values()) == [request]
    assert clone.pulumi("preview", STACK, "--expect-no-changes").returncode == 0
    clone.keep_states(tmp_path / "second")

    clone.take_states(tmp_path / "first")
    destroyed = clone.pulumi("destroy", STACK)
    assert destroyed.returncode == 0, said(destroyed)
    assert list(api.cloud.ledger.requests.values()) == [request], "it is the second's by now"
    clone.take_states(tmp_path / "second")
    destroyed = clone.pulumi("destroy", STACK)
    assert destroyed.returncode == 0, said(destroyed)
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


def test_every_up_says_in_the_bucket_what_it_uses_until_destroy_and_its_runs_name_stays_one_models(
    clone: Clone, api: TpuApi
) -> None:
    """Two models under one name wrote their checkpoints over each other's, on slices that were paid for."""
    own = {"like": "v6e-8", "project": PROJECT, "zones": ["us-east5-b"], "run_name": "mine", "fit": "unchecked"}
    write(clone, STACK, **own)
    assert clone.pulumi("up", STACK).returncode == 0
    assert users() == ["me-example-com/v6e-8_incident"]
    (before,) = uses.of_entries(open_store(BUCKET).entries())
    assert said_to_hosts() == [before.bundle]
    run = f"gs://slipway-checkpoints-us-east5-{PROJECT}/{STACK}/mine"
    assert open_store(run).has("record.json"), "beside the checkpoints to be"
    write(clone, STACK, **own, steps=7)
    assert clone.pulumi("up", STACK).returncode == 0
    (now,) = uses.of_entries(open_store(BUCKET).entries())
    assert now.bundle != before.bundle, "other steps are another bundle, and the old one is not in use any more"
    assert said_to_hosts() == [now.bundle]
    assert clone.pulumi("destroy", STACK).returncode == 0
    assert (users(), said_to_hosts()) == ([], [])

    write(clone, STACK, **own, training={"model_name": "llama2-7b"})
    refused = clone.pulumi("up", STACK)
    assert refused.returncode != 0
    pattern = r"run 'mine' belongs to other settings \(rows_per_step: \d+ -> \d+\); give another run_name, leave "
    assert re.search(f"{pattern}run_name out, or take the settings back", said(refused)), said(refused)
    assert "fault in slipway" not in said(refused)
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {}), "nothing was asked for"
    assert clone.pulumi("destroy", STACK).returncode == 0


def test_a_state_of_0_1_0_goes_up_and_away_and_leaves_nothing(clone: Clone, tmp_path: Path) -> None:
    with emulated(tmp_path, [states.LIKE]) as api:
        stack = states.restore(clone, "tpu-vm", "0.1.0", api)
        before = list(api.cloud.ledger.requests.values())
        up = clone.pulumi("up", stack)
        assert up.returncode == 0, said(up)
        assert list(api.cloud.ledger.requests.values()) == before, "the live request is the one that 0.1.0 has made"
        assert users() == ["me-example-com/v6e-8_kept"]
        refreshed = clone.pulumi("refresh", stack, "--yes")  # finds what is there, and so records where it is
        assert refreshed.returncode == 0, said(refreshed)
        destroyed = clone.pulumi("destroy", stack)
        assert destroyed.returncode == 0, said(destroyed)
        assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {}), said(destroyed)
        assert users() == []
