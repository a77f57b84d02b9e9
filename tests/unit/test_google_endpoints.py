"""What Google's plugin has made at an endpoint of the stack file stays with it: infra/engine/google_endpoints.py."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from infra.engine.google_endpoints import problem_of_stack_file

GOOGLE, OTHER = "https://storage-mine.p.googleapis.com/storage/v1/", "http://127.0.0.1:4/"
KEY = "storageCustomEndpoint"


def stack(endpoint: str = "") -> str:
    return "config:\n  gcp:project: p\n" + (f'  "gcp:{KEY}": "{endpoint}"  # ours\n' if endpoint else "")


def state(folder: Path, endpoint: str = "", used: bool = True, zipped: bool = False) -> list[Path]:
    """The file of a stack with one bucket, made through a provider with this endpoint."""
    urn = "urn:pulumi:f::slipway::pulumi:providers:gcp::default_9_12_0"
    resources: list[dict[str, Any]] = [
        {"urn": urn, "type": "pulumi:providers:gcp", "inputs": {KEY: endpoint} if endpoint else {}}
    ]
    if used:
        resources.append({"urn": "b", "type": "gcp:storage/bucket:Bucket", "provider": f"{urn}::49fb51fa"})
    text = json.dumps({"version": 3, "checkpoint": {"latest": {"resources": resources}}}).encode()
    path = folder / ("f.json.gz" if zipped else "f.json")
    path.write_bytes(gzip.compress(text) if zipped else text)
    return [path]


@pytest.mark.parametrize("zipped", [False, True])
def test_what_was_made_elsewhere_is_not_followed_by_another_key(tmp_path: Path, zipped: bool) -> None:
    there = state(tmp_path, OTHER, zipped=zipped)
    assert problem_of_stack_file(stack(OTHER), there) is None
    moved = str(problem_of_stack_file(stack("http://127.0.0.1:5/"), there))
    assert moved.startswith(f"what this stack has was made at {OTHER} (gcp:{KEY})")
    assert f"says http://127.0.0.1:5/; write `gcp:{KEY}: {OTHER}` into the stack file again" in moved


def test_what_google_has_is_not_followed_by_an_endpoint(tmp_path: Path) -> None:
    at_google = state(tmp_path)
    assert problem_of_stack_file(stack(), at_google) is None
    moved = str(problem_of_stack_file(stack(OTHER), at_google))
    assert f"was made at Google (gcp:{KEY}), but the stack file says {OTHER}; take `gcp:{KEY}` out of" in moved


def test_private_service_connect_is_google(tmp_path: Path) -> None:
    assert problem_of_stack_file(stack(GOOGLE), state(tmp_path)) is None
    assert problem_of_stack_file(stack(), state(tmp_path, GOOGLE)) is None
    assert problem_of_stack_file(stack(GOOGLE), None) is None


def test_nothing_made_moves_nothing(tmp_path: Path) -> None:
    empty = tmp_path / "g.json"
    empty.write_text(json.dumps({"version": 3, "checkpoint": {"stack": "f", "latest": None}}))
    assert problem_of_stack_file(stack(OTHER), [empty]) is None
    assert problem_of_stack_file(stack(OTHER), []) is None
    assert problem_of_stack_file(stack(OTHER), state(tmp_path, used=False)) is None


def test_an_emulators_things_are_kept_in_a_state_of_this_clone() -> None:
    assert problem_of_stack_file(stack(), None) is None
    problem = str(problem_of_stack_file(stack(OTHER), None))
    assert problem.startswith(f"gcp:{KEY} is {OTHER}, which is not Google, and the state of this stack is not in this")
