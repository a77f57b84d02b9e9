"""Shipped stacks of target vertex through the real engine: preview, a killed `up`, an empty second preview, destroy."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.emulators.call_faults import FaultKind
from infra.emulators.vertex_jobs import VertexApi
from infra.preview.planned_changes import changes
from tests.engine.clone import Clone, said
from tests.engine.project import kill_engine, until
from tests.engine.tpu_cloud import PROJECT, write
from tests.engine.vertex_cloud import emulated_vertex

STACKS = ("vertex-a3-mega-2", "vertex-a3-mega-4")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("vertex") / "clone")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[VertexApi]:
    with emulated_vertex(tmp_path, list(STACKS)) as api:
        yield api


def start(clone: Clone, stack: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        clone.command("pulumi", "up", "--stack", stack, "--yes", "--skip-preview"),
        cwd=clone.directory,
        env=clone.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize("like", STACKS)
def test_the_life_of_a_shipped_stack(clone: Clone, api: VertexApi, like: str) -> None:
    stack = f"{like}.life"
    write(clone, stack, like=like, project=PROJECT, fit="unchecked")
    preview = clone.pulumi("preview", stack, "--json")
    assert preview.returncode == 0, said(preview)
    assert {change.resource for change in changes(preview.stdout)} == {
        f"pulumi:pulumi:Stack slipway-{stack}",
        f"slipway:vertex:Training {stack}",
        "slipway:vertex:StackGuard guard",
        "slipway:artifacts:Wheelhouse wheelhouse",
        "slipway:artifacts:Bundle bundle",
        "slipway:run:Run run",
        "slipway:vertex:Job job",
    }
    fault = api.fail(FaultKind.TIMEOUT_AFTER, "CreateCustomJob")
    engine = start(clone, stack)
    until(fault.held.is_set, "up has asked for the job")
    kill_engine(engine)
    engine.communicate()
    fault.release.set()
    done = clone.pulumi("up", stack)
    assert done.returncode == 0, said(done)
    (job,) = api.cloud.jobs.values()
    assert (job.state, len(job.replicas)) == ("JOB_STATE_RUNNING", int(like[-1]))
    assert len(api.calls_of("CreateCustomJob")) == 1
    again = clone.pulumi("preview", stack, "--expect-no-changes")
    assert again.returncode == 0, said(again)
    done = clone.pulumi("destroy", stack)
    assert done.returncode == 0, said(done)
    assert api.cloud.jobs == {}
