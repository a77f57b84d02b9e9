"""A sample of tests/unit/test_fault_matrix.py through the real engine, which is killed with -9 where it says so."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.emulators.tpu_api import Fault, FaultKind, TpuApi
from tests.engine.clone import Clone, said
from tests.engine.project import kill_engine, until
from tests.engine.tpu_cloud import PROJECT, emulated, write

LIKE, ZONES = "v6e-8", ["us-east5-b", "us-east5-a"]


@dataclasses.dataclass(frozen=True)
class Deployment:
    """A stack of a clone, its emulated cloud, and the engine's commands on it."""

    clone: Clone
    api: TpuApi
    stack: str

    def up(self) -> subprocess.CompletedProcess[str]:
        return self.clone.pulumi("up", self.stack)

    def start(self, verb: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.clone.command("pulumi", verb, "--stack", self.stack, "--yes", "--skip-preview"),
            cwd=self.clone.directory,
            env=self.clone.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def kill_when_held(self, verb: str, fault: Fault) -> None:
        engine = self.start(verb)
        until(fault.held.is_set, f"{verb} has come to {fault.rpc}")
        kill_engine(engine)
        engine.communicate()
        fault.release.set()

    def destroy(self) -> None:
        done = self.clone.pulumi("destroy", self.stack)
        assert done.returncode == 0, said(done)
        assert (self.api.cloud.ledger.requests, self.api.cloud.ledger.nodes) == ({}, {})

    def relabel(self) -> None:
        write(self.clone, self.stack, like=LIKE, project=PROJECT, zones=ZONES, labels={"team": "a"})

    def labels(self) -> dict[str, str]:
        (node,) = self.api.cloud.ledger.nodes.values()
        return dict(node.message.labels)

    def check_up(self) -> None:
        """Exactly what is wanted is there, and a second preview is empty."""
        again = self.clone.pulumi("preview", self.stack, "--expect-no-changes")
        assert again.returncode == 0, said(again)
        assert (len(self.api.cloud.ledger.requests), len(self.api.cloud.ledger.nodes)) == (1, 1)

    def resources(self) -> set[str]:
        return {one["urn"].rpartition("::")[2] for one in self.clone.resources(self.stack)}


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("tpu-faults") / "clone")


@pytest.fixture
def deployment(clone: Clone, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Deployment]:
    stack = f"v6e-8.t{abs(hash(request.node.name)) % 10**6}"
    write(clone, stack, like=LIKE, project=PROJECT, zones=ZONES)
    with emulated(tmp_path, [LIKE]) as api:
        yield Deployment(clone, api, stack)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("creating", "deleting"),
    [
        ((FaultKind.CUT_AFTER, "CreateQueuedResource"), (FaultKind.OPERATION_ERROR, "DeleteQueuedResource")),
        ((FaultKind.TOO_MANY_REQUESTS, "CreateQueuedResource"), (FaultKind.CUT_AFTER, "DeleteQueuedResource")),
        ((FaultKind.MALFORMED, "GetQueuedResource"), (FaultKind.UNAVAILABLE, "ListQueuedResources")),
        ((FaultKind.EMPTY, "GetGuestAttributes"), (FaultKind.CUT_AFTER, "DeleteQueuedResource")),
        ((FaultKind.OPERATION_ERROR_AFTER, "CreateQueuedResource"), (FaultKind.UNAVAILABLE, "ListQueuedResources")),
    ],
    ids=lambda fault: f"{fault[0].name}-{fault[1]}",
)
def test_a_fault_that_passes_is_not_even_noticed(
    deployment: Deployment, creating: tuple[FaultKind, str], deleting: tuple[FaultKind, str]
) -> None:
    """While a slice is made, while its labels change and while it is deleted."""
    fault = deployment.api.fail(*creating)
    done = deployment.up()
    assert (done.returncode, fault.happened) == (0, 1), said(done)
    deployment.check_up()

    deployment.relabel()
    fault = deployment.api.fail(FaultKind.CUT_AFTER, "UpdateNode")
    done = deployment.up()
    assert (done.returncode, fault.happened) == (0, 1), said(done)
    deployment.check_up()
    assert deployment.labels()["team"] == "a"

    fault = deployment.api.fail(*deleting)
    deployment.destroy()
    assert fault.happened == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", [FaultKind.TIMEOUT, FaultKind.TIMEOUT_AFTER], ids=lambda kind: kind.name)
def test_up_goes_on_where_a_killed_one_has_ended(deployment: Deployment, kind: FaultKind) -> None:
    """Killed while it asks, while it waits, while labels change; and destroy while it deletes."""
    deployment.kill_when_held("up", deployment.api.fail(kind, "CreateQueuedResource"))
    assert "request" not in deployment.resources(), "the state never learned of it"
    deployment.kill_when_held("up", deployment.api.fail(FaultKind.TIMEOUT, "GetGuestAttributes"))
    done = deployment.up()
    assert done.returncode == 0, said(done)
    deployment.check_up()

    deployment.relabel()
    deployment.kill_when_held("up", deployment.api.fail(FaultKind.TIMEOUT, "UpdateNode"))
    done = deployment.up()
    assert done.returncode == 0, said(done)
    deployment.check_up()
    assert deployment.labels()["team"] == "a"

    deployment.kill_when_held("destroy", deployment.api.fail(FaultKind.TIMEOUT_AFTER, "DeleteQueuedResource"))
    deployment.destroy()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kind", "rpc"),
    [
        (FaultKind.TIMEOUT, "CreateQueuedResource"),
        (FaultKind.TIMEOUT_AFTER, "CreateQueuedResource"),
        (FaultKind.TIMEOUT, "UpdateNode"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_destroy_after_a_killed_up_leaves_nothing(deployment: Deployment, kind: FaultKind, rpc: str) -> None:
    if rpc == "UpdateNode":
        assert deployment.up().returncode == 0
        deployment.relabel()
    deployment.kill_when_held("up", deployment.api.fail(kind, rpc))
    assert ("request" in deployment.resources()) is (rpc == "UpdateNode")
    deployment.destroy()


def test_a_refusal_then_ctrl_c_then_another_bundle_then_a_preemption(deployment: Deployment) -> None:
    """A refusal says call, resource and next step; Ctrl-C keeps the request, and so does another bundle while it waits;
    a preempted slice is drift. Other refusals have their sentences in tests/unit/test_tpu_runbook.py.
    """
    deployment.api.fail(FaultKind.DENIED, "CreateQueuedResource")
    tried = deployment.up()
    assert tried.returncode != 0
    assert f"cannot create projects/{PROJECT}/locations/us-east5-b/queuedResources/slipway-v6e-8--" in said(tried)
    granted = "have it granted (roles/tpu.admin), or run `gcloud auth application-default login`"
    assert granted in " ".join(said(tried).split())
    assert "Traceback" not in said(tried)
    assert deployment.api.cloud.ledger.requests == {}

    cloud = deployment.api.cloud
    cloud.levers.stockout("us-east5-b", "v6e")
    asked = len(deployment.api.calls_of("GetQueuedResource"))
    engine = deployment.start("up")
    until(lambda: len(deployment.api.calls_of("GetQueuedResource")) > asked + 3, "SliceReady waits")
    until(lambda: "request" in deployment.resources(), "the request is in the state")
    engine.send_signal(signal.SIGINT)
    shown, _ = engine.communicate(timeout=900)
    assert "stopped by Ctrl-C" in shown
    (before,) = cloud.ledger.requests.values()
    write(deployment.clone, deployment.stack, like=LIKE, project=PROJECT, zones=ZONES, steps=7, wait=False)
    done = deployment.up()
    assert done.returncode == 0, said(done)
    assert "metadata updates: the request keeps its place in the queue" in said(done)
    assert list(cloud.ledger.requests.values()) == [before]
    with deployment.api.lock:
        cloud.levers.set_capacity("us-east5-b", "v6e", None)
    write(deployment.clone, deployment.stack, like=LIKE, project=PROJECT, zones=ZONES, steps=7)
    done = deployment.up()
    assert done.returncode == 0, said(done)
    assert list(cloud.ledger.requests.values()) == [before]
    assert "another bundle" not in said(done), "its hosts have booted with the new one"
    deployment.check_up()

    (request,) = cloud.ledger.requests.values()
    with deployment.api.lock:
        cloud.delete_node(request.node_names[0])
        cloud.transitions.advance(1)
    seen = deployment.clone.pulumi("preview", deployment.stack, "--expect-no-changes")
    assert seen.returncode != 0
    done = deployment.up()
    assert done.returncode == 0, said(done)
    deployment.check_up()
    deployment.destroy()


def test_orphans_are_what_belongs_to_no_stack_and_an_owner_is_found_in_each_spelling(deployment: Deployment) -> None:
    """The incident: `--owner me@example.com`, as the stack file says it, found nothing and the slice billed on."""

    def orphans(*arguments: str) -> subprocess.CompletedProcess[str]:
        return deployment.clone.run("slipway", "orphans", PROJECT, *arguments)

    assert deployment.up().returncode == 0
    everybodys = orphans("--delete")
    assert everybodys.stderr.endswith(
        "error: --delete needs --owner: what belongs to no stack of this backend may be somebody else's and running\n"
    )
    kept = orphans("--owner", "me@example.com", "--delete")
    assert "2 with our label, 0 of no stack of this backend" in said(kept)
    assert said(kept).count("with our label") == 1, "one line a project, however many targets there are"
    removed = deployment.clone.run("pulumi", "stack", "rm", deployment.stack, "--force", "--yes", "--preserve-config")
    assert removed.returncode == 0, said(removed)  # as a lost laptop
    assert "2 with our label, 2 of no stack of this backend" in said(orphans())
    shown = orphans("--owner", "Me@Example.com")  # every spelling is in tests/unit/test_orphans.py
    assert "2 with our label, 2 of no stack of this backend and of owner me-example-com\n" in shown.stdout
    nobody = orphans("--owner", "@", "--delete")
    assert (nobody.returncode, nobody.stderr.splitlines()[-1]) == (
        2,
        "error: owner '@' has no letter or digit, so no label is of it; give the `owner` of a stack file",
    )
    other = orphans("--owner", "you@example.com", "--delete")
    assert "2 with our label, 0 of no stack of this backend and of owner you-example-com\n" in other.stdout
    assert len(deployment.api.cloud.ledger.requests) == 1
    deleted = orphans("--owner", "me@example.com", "--delete")
    assert (deleted.returncode, deployment.api.cloud.ledger.requests, deployment.api.cloud.ledger.nodes) == (0, {}, {})
