"""What docs/runbook.md says that is printed, and other sentences for operators, against the emulator."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest

from infra.emulated import TPU
from infra.emulators.tpu_api import Behaviour, Cloud, FaultKind, OperationEnds, QuotaRefusal, QuotaTier, Timings, TpuApi
from infra.providers.resource import ResourceError
from tests.unit.tpu_stack import ZONES, Stack, wanted

TIMINGS = Timings(admit_s=1, select_s=1, provision_s=5, boot_s=5, host_stagger_s=0, suspend_s=2, delete_s=2, update_s=1)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TpuApi]:
    with TpuApi(Cloud(TIMINGS)) as api:
        monkeypatch.setenv(TPU, api.url)
        yield api


def refused(stack: Stack) -> str:
    with pytest.raises(ResourceError) as caught:
        stack.up()
    return str(caught.value)


def test_a_request_of_that_name_without_our_label_is_never_touched(api: TpuApi) -> None:
    Stack(wanted("other", name="q", zones=ZONES[:1]), api.advance).up()
    stack = Stack(wanted("s", name="q", zones=ZONES[:1]), api.advance)
    assert refused(stack) == (
        "projects/p/locations/us-east5-b/queuedResources/q is ACTIVE and made just now, by stack other of alice; give "
        "this stack another name (`slipway stack new` with --variant writes one), or if it may go: "
        "gcloud compute tpus queued-resources delete q "
        "--zone=us-east5-b --project=p --force"
    )
    stack.destroy()
    assert len(api.cloud.ledger.requests) == 1


def test_what_another_clone_has_is_refused_and_a_wait_for_what_is_gone_says_so(api: TpuApi) -> None:
    first, second = (Stack(wanted(), api.advance, wait_deadline_s=60) for _ in range(2))
    api.cloud.levers.stockout("us-east5-b", "v6e")
    assert "after 1m (wait_deadline); `pulumi up` goes on waiting, `pulumi destroy` gives it up" in refused(first)
    assert "is WAITING_FOR_RESOURCES and made just now, by alice from another clone or backend" in refused(second)
    inner = first.advance

    def deleted_meanwhile(seconds: float) -> None:
        first.advance = inner
        for name in list(api.cloud.ledger.requests):
            api.cloud.delete_request(name, force=True)
        inner(seconds + 60)

    first.advance = deleted_meanwhile
    assert refused(first) == (
        "q-s is in none of us-east5-b, us-east5-a: somebody has deleted it, or has it now; run `pulumi up`, which asks "
        "for it again or says who has it"
    )
    assert first.changes() == ["request", "ready"]


def test_the_guard_says_what_the_state_did_not_know(api: TpuApi) -> None:
    stack = Stack(wanted(), api.advance)
    stack.up()
    del stack.state["request"]
    del stack.state["ready"]
    stack.destroy()
    request = "projects/p/locations/us-east5-b/queuedResources/q-s"
    assert f"deleted {request}, which the state did not know" in stack.lines
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})


@pytest.mark.parametrize("how", QuotaRefusal)
@pytest.mark.parametrize("ends", OperationEnds)
def test_quota_is_said_however_the_service_refuses(
    monkeypatch: pytest.MonkeyPatch, how: QuotaRefusal, ends: OperationEnds
) -> None:
    with TpuApi(Cloud(TIMINGS, Behaviour(quota_refusal=how, create_ends=ends))) as api:
        monkeypatch.setenv(TPU, api.url)
        api.cloud.levers.set_quota("p", "us-east5-b", "v6e", 0, QuotaTier.SPOT)
        stack = Stack(wanted(zones=ZONES[:1]), api.advance, wait_deadline_s=600)
        sentence = refused(stack)
        assert "Quota limit 'TPUV6EPreemptiblePerProjectPerZoneForTPUAPI' has been exceeded" in " ".join(
            [sentence, *stack.lines]
        )
        assert "POST http" not in sentence
        stack.destroy()
        assert api.cloud.ledger.requests == {}


def test_quota_of_one_zone_sends_the_request_to_the_next(api: TpuApi) -> None:
    api.cloud.levers.set_quota("p", "us-east5-b", "v6e", 0, QuotaTier.SPOT)
    stack = Stack(wanted(), api.advance)
    stack.up()
    assert stack.state["ready"]["outputs"]["zone"] == "us-east5-a"
    assert stack.changes() == []


def test_a_stopped_wait_goes_on_at_the_next_up(api: TpuApi) -> None:
    api.cloud.levers.stockout("us-east5-b", "v6e")
    stack = Stack(wanted(), api.advance, wait_deadline_s=60)
    refused(stack)
    assert stack.state["ready"]["failed"]
    (before,) = api.cloud.ledger.requests.values()
    number = before.number
    api.cloud.levers.set_capacity("us-east5-b", "v6e", None)
    stack.up()
    assert [request.number for request in api.cloud.ledger.requests.values()] == [number]
    assert stack.state["ready"]["outputs"]["ready"] == 1


def test_new_metadata_of_a_request_without_nodes_asks_anew(api: TpuApi) -> None:
    api.cloud.levers.stockout("us-east5-b", "v6e")
    stack = Stack(wanted(), api.advance, wait=False)
    stack.up()
    stack.request = wanted(metadata={"startup-script": "#! other"})
    api.cloud.levers.set_capacity("us-east5-b", "v6e", None)
    stack.wait = True
    stack.up()
    (node,) = api.cloud.ledger.nodes.values()
    assert dict(node.message.metadata) == {"startup-script": "#! other"}


def test_what_somebody_changed_on_a_node_is_drift_and_is_put_back(api: TpuApi) -> None:
    stack = Stack(wanted(), api.advance)
    stack.up()
    (node,) = api.cloud.ledger.nodes.values()
    with api.lock:
        node.message.labels["team"] = "theirs"
    assert stack.changes() == ["request"]
    assert stack.state["request"]["outputs"]["differs"] == ["labels of q-s"]
    stack.up()
    assert "team" not in node.message.labels
    assert stack.changes() == []


def test_a_fault_of_the_request_itself_is_not_tried_everywhere(api: TpuApi) -> None:
    disks = [{"source_disk": "projects/p/zones/us-east5-b/disks/d", "mode": "read-write"}]
    Stack(wanted("first", data_disks=disks), api.advance).up()
    stack = Stack(wanted(data_disks=disks), api.advance)
    assert "can be attached to one node only in read-write mode.), and was deleted; mend what it says" in refused(stack)
    assert len(api.cloud.ledger.requests) == 1


def test_secrets_and_traces_are_in_no_sentence(api: TpuApi) -> None:
    for kind, next_step in (
        (FaultKind.DENIED, "have it granted (roles/tpu.admin), or run `gcloud auth application-default login`"),
        (FaultKind.UNAUTHENTICATED, "invalid authentication credentials.; run `gcloud auth application-default login`"),
        (FaultKind.OPERATION_ERROR, "An internal error has occurred (a fault of the emulator).; run `pulumi up` again"),
    ):
        api.fail(kind, "CreateQueuedResource")
        stack = Stack(wanted(metadata={"startup-script": "WORD-OF-THE-SCRIPT"}), api.advance)
        sentence = refused(stack)
        assert sentence.startswith("cannot create projects/p/locations/us-east5-b/queuedResources/q-s: ")
        assert next_step in sentence
        assert api.cloud.ledger.requests == {}
        assert "WORD-OF-THE-SCRIPT" not in sentence
        assert "Traceback" not in sentence


@pytest.mark.parametrize(
    ("kind", "rpc", "sentence"),
    [
        (FaultKind.DENIED, "GetGuestAttributes", "have it granted (roles/tpu.admin)"),
        (FaultKind.UNAUTHENTICATED, "GetQueuedResource", "no valid Google credentials on this machine"),
        (FaultKind.OPERATION_ERROR, "UpdateNode", "An internal error has occurred (a fault of the emulator).; run"),
    ],
    ids=lambda value: value.name if isinstance(value, FaultKind) else "",
)
def test_a_fault_after_the_request_is_there_is_a_sentence_and_the_next_up_goes_on(
    api: TpuApi, kind: FaultKind, rpc: str, sentence: str
) -> None:
    stack = Stack(wanted(), api.advance)
    if rpc == "UpdateNode":
        stack.up()
        stack.request = wanted(labels=stack.request.labels | {"team": "a"})
    fault = api.fail(kind, rpc)
    assert sentence in refused(stack)
    stack.up()
    assert (fault.happened, len(api.cloud.ledger.requests), stack.changes()) == (1, 1, [])


@pytest.mark.parametrize("kind", [FaultKind.EMPTY, FaultKind.OPERATION_ERROR_AFTER], ids=lambda kind: kind.name)
def test_a_fault_that_passes_while_deleting_leaves_nothing(api: TpuApi, kind: FaultKind) -> None:
    stack = Stack(wanted(), api.advance)
    stack.up()
    fault = api.fail(kind, "GetQueuedResource" if kind is FaultKind.EMPTY else "DeleteQueuedResource")
    stack.destroy()
    assert (fault.happened, api.cloud.ledger.requests, api.cloud.ledger.nodes) == (1, {}, {})


def test_a_zone_that_forbids_ends_a_move_with_its_sentence(api: TpuApi) -> None:
    api.cloud.levers.stockout("us-east5-b", "v6e")
    stack = Stack(wanted(valid_until_s=20), api.advance)
    api.fail(FaultKind.DENIED, "CreateQueuedResource", skip=1)
    assert "cannot create projects/p/locations/us-east5-a/queuedResources/q-s" in refused(stack)
    stack.up()
    assert stack.state["ready"]["outputs"]["zone"] == "us-east5-a"


def test_an_outage_ends_in_one_sentence(api: TpuApi) -> None:
    api.fail(FaultKind.UNAVAILABLE, "CreateQueuedResource", times=10_000)
    stack = Stack(wanted(), api.advance)
    assert refused(stack).endswith("The service is currently unavailable. (503); run it again")
    stack.destroy()


def test_a_changed_prefix_leaves_nothing_of_the_old_name(api: TpuApi) -> None:
    stack = Stack(wanted(), api.advance)
    stack.up()
    stack.request = dataclasses.replace(stack.request, name="r")
    stack.up()
    assert [name.rpartition("/")[2] for name in api.cloud.ledger.requests] == ["r"]
    stack.destroy()
    assert api.cloud.ledger.requests == {}
