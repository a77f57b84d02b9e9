"""State on its way to a shared bucket: what has to be there first, and that nothing is lost where a move goes wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infra.engine import wrapper
from infra.standins.gcp import schema
from infra.targets.errors import TargetError
from infra.targets.foundation import state_bucket
from tests.unit.test_foundation import made

URL = "gs://slipway-state-us-central1-p"

# In place of the engine: a state is a file in a backend's directory, as `stack export` prints it; no-<command> fails.
ENGINE = """#!/bin/sh
set -eu
backend="$STATES/$([ -n "${PULUMI_BACKEND_URL:-}" ] && echo there || echo here)"
while [ $# -gt 0 ]; do
    case "$1" in
        up|export|import|init) what=$1 ;;
        --stack) stack=$2; shift ;;
        --file) file=$2; shift ;;
        --*|stack|never) ;;
        *) stack=$1 ;;
    esac
    shift
done
[ ! -e "$STATES/no-$what" ] || { cat "$STATES/no-$what" >&2; exit 255; }
case "$what" in
    export) cat "$backend/$stack" ;;
    import) [ -e "$STATES/forgets" ] || cp "$file" "$backend/$stack" ;;
    init)
        [ ! -e "$backend/$stack" ] || { echo "error: stack '$stack' already exists" >&2; exit 255; }
        echo '{"deployment": {}}' >"$backend/$stack" ;;
esac
"""


def state(*names: str) -> dict[str, Any]:
    return {"deployment": {"resources": [{"urn": f"urn:{name}", "id": name} for name in names]}}


@pytest.fixture
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone with stack `s` of two resources in its state, and an empty backend."""
    root, states = tmp_path / "clone", tmp_path / "states"
    for directory in (root, states / "here", states / "there"):
        directory.mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: slipway\n")
    kept = wrapper.state_directory(root) / ".pulumi" / "stacks" / "slipway"
    kept.mkdir(parents=True)
    (kept / "s.json").write_text("{}")
    (kept / "other.json").write_text("{}")
    (states / "here" / "s").write_text(json.dumps(state("a", "b")))
    engine = tmp_path / "pulumi"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    monkeypatch.setattr(state_bucket, "ROOT", root)
    monkeypatch.setattr(state_bucket, "PULUMI", engine)
    monkeypatch.setenv("STATES", str(states))
    monkeypatch.delenv("PULUMI_BACKEND_URL", raising=False)
    return states


def files() -> list[str]:
    """The states of the clone, and what was put aside."""
    folder = wrapper.state_directory(state_bucket.ROOT) / ".pulumi" / "stacks" / "slipway"
    return sorted(path.name for path in folder.iterdir())


def test_a_state_is_compared_before_the_original_is_put_aside(states: Path) -> None:
    assert state_bucket.move("s", URL) == 2
    assert json.loads((states / "there" / "s").read_text()) == state("a", "b")
    assert files() == ["other.json", "s.json.moved"]


def test_a_move_that_was_cut_off_goes_on(states: Path) -> None:
    """Before the copy, or after it and before the original was put aside."""
    (states / "there" / "s").write_text('{"deployment": {"resources": null}}')
    assert state_bucket.move("s", URL) == 2
    (wrapper.state_directory(state_bucket.ROOT) / ".pulumi" / "stacks" / "slipway" / "s.json").write_text("{}")
    (states / "no-import").write_text("error: not asked to\n")
    assert state_bucket.move("s", URL) == 2, "what is there already is not copied again"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            {"there/s": json.dumps(state("a"))},
            f"{URL} has another state of stack 's' already (1 resources, here 2); decide which is right, and remove "
            "the other with `pulumi stack rm --force`",
        ),
        ({"no-init": "notes first\nerror: access denied\n"}, f"cannot make stack 's' in {URL}: access denied"),
        (
            {"no-export": "error: the lock is held\nby another\n"},
            "cannot read the state of stack 's': the lock is held",
        ),
        ({"no-export": ""}, "cannot read the state of stack 's': it said nothing"),
        ({"no-import": "error: no\n"}, f"the state of 's' did not arrive in {URL}, it is still here: no"),
        ({"forgets": ""}, f"the state of 's' did not arrive in {URL}, it is still here: it said nothing"),
    ],
)
def test_a_move_that_fails_leaves_the_original(states: Path, spoil: dict[str, str], said: str) -> None:
    for name, text in spoil.items():
        (states / name).write_text(text)
    with pytest.raises(TargetError) as caught:
        state_bucket.move("s", URL)
    assert str(caught.value) == said
    assert files() == ["other.json", "s.json"]


def test_a_bucket_that_is_not_made_moves_nothing(states: Path) -> None:
    state_bucket.make_bucket("foundation.us-central1")
    (states / "no-up").touch()
    with pytest.raises(TargetError) as caught:
        state_bucket.make_bucket("foundation.us-central1")
    assert str(caught.value) == (
        "the state bucket is not made, so nothing was moved; run it again: slipway backend init foundation.us-central1"
    )


@pytest.mark.usefixtures("states")
def test_stacks_of_this_machine_stay_on_it_and_those_without_a_file_move() -> None:
    folder = wrapper.state_directory(state_bucket.ROOT) / ".pulumi" / "stacks" / "slipway"
    for name in ("local.json.gz", "v6e-32.json", "local.mine.json", "v6e-8.json.moved"):
        (folder / name).touch()
    assert state_bucket.stacks_to_move() == ["local.mine", "other", "s", "v6e-32"]


# --- what has to be there first ---


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """Nothing of this machine's: an empty home, no plugin on PATH."""
    return {"HOME": str(tmp_path), "PULUMI_HOME": str(tmp_path / "pulumi"), "PATH": str(tmp_path / "bin")} | more


def test_the_placeholder_project_has_no_buckets(tmp_path: Path) -> None:
    said = state_bucket.obstacle(made(), environment(tmp_path))
    assert said and "my-project" in said and "stacks/Pulumi.foundation.us-central1.yaml" in said


def test_without_googles_plugin_the_command_that_installs_it_is_said(tmp_path: Path) -> None:
    said = state_bucket.obstacle(made(project="theirs-1234"), environment(tmp_path))
    assert said == (
        "Google's provider plugin is not installed; run: pulumi plugin install resource gcp " + schema.version()
    )
