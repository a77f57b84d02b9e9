"""What hosts of a request learn when they boot: a request that waits keeps its place when only their bundle changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts.opening import open_store
from infra.artifacts.store import StoreError
from infra.emulated import TPU
from infra.emulators.tpu_api import Cloud, FaultKind, Timings, TpuApi
from infra.providers.resource import OnChange, ResourceError
from infra.targets.tpu_vm.provider.tpu_inputs import STARTUP_SCRIPT, QueuedResourceInputs, body, fingerprint
from infra.targets.tpu_vm.provider.tpu_request_resource import TpuRequestResource
from infra.vm_hosts.startup_script import bundle_of, wanted_of
from tests.unit.tpu_stack import ZONES, Stack, script, telling, wanted

TIMINGS = Timings(admit_s=1, select_s=1, provision_s=5, boot_s=5, host_stagger_s=0, suspend_s=2, delete_s=2, update_s=1)
OLD, NEW = "a" * 16, "b" * 16


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TpuApi]:
    with TpuApi(Cloud(TIMINGS)) as api:
        monkeypatch.setenv(TPU, api.url)
        yield api


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


def said(store: Path) -> list[str]:
    """What is said to hosts, by whichever state."""
    there = open_store(store)
    return [there.read(key).decode().strip() for key in there.keys("wanted/")]


def waiting(api: TpuApi, store: Path, bundle: str = OLD) -> Stack:
    """A stack whose request is in the queue, and stays there until a zone has room."""
    api.cloud.levers.set_capacity(ZONES[0], "v6e", 0)
    stack = Stack(asking(store, bundle), api.advance, wait=False)
    stack.up()
    api.advance(60)
    stack.refresh()
    assert stack.state["request"]["outputs"]["state"] == "WAITING_FOR_RESOURCES"
    return stack


def asking(store: Path, bundle: str) -> QueuedResourceInputs:
    return wanted(zones=ZONES[:1], **telling(bundle, str(store)))


def numbers(api: TpuApi) -> list[int]:
    return [request.number for request in api.cloud.ledger.requests.values()]


def serve(api: TpuApi, stack: Stack) -> None:
    """There is room now, and `up` waits until its hosts are ready."""
    api.cloud.levers.set_capacity(ZONES[0], "v6e", None)
    stack.wait = True
    stack.up()


def script_on_node(api: TpuApi) -> str:
    (node,) = api.cloud.ledger.nodes.values()
    return str(node.message.metadata[STARTUP_SCRIPT])


def bundle_of_hosts(api: TpuApi) -> set[str]:
    (node,) = api.cloud.ledger.nodes.values()
    return {host.bundle for host in node.hosts}


def test_another_bundle_keeps_the_place_of_a_request_that_waits_and_the_preview_says_so(
    api: TpuApi, store: Path
) -> None:
    """It was deleted and asked for anew, at the end of the queue."""
    stack = waiting(api, store)
    before, state = numbers(api), stack.state["request"]
    stack.request = asking(store, NEW)
    resource = TpuRequestResource()
    changed = resource.changes(state["inputs"], dataclasses.asdict(stack.request) | {"identity": "i"}, state["outputs"])
    assert changed == {"metadata": OnChange.UPDATE}
    assert resource.remarks(changed, state["outputs"]) == [
        "metadata updates: the request keeps its place in the queue, since its hosts learn their bundle when they boot"
    ]
    assert resource.remarks(changed, state["outputs"] | {"state": "ACTIVE"}) == []
    stack.up()
    assert (numbers(api), said(store), stack.changes()) == (before, [NEW], [])
    serve(api, stack)
    ready = stack.state["ready"]["outputs"]
    assert (numbers(api), ready["ready"], ready["behind"]) == (before, 1, 0)
    assert bundle_of_hosts(api) == {NEW}
    assert script_on_node(api) == script(NEW, str(store)), "from now on its metadata says it"
    assert stack.changes() == []
    stack.destroy()
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes, said(store)) == ({}, {}, [])


def test_what_else_hosts_start_with_takes_the_place_in_the_queue(api: TpuApi, store: Path) -> None:
    stack = waiting(api, store)
    before, state = numbers(api), stack.state["request"]
    metadata = {STARTUP_SCRIPT: script(NEW, str(store)) + "export SLIPWAY_SECRETS=another\n"}
    stack.request = dataclasses.replace(stack.request, metadata=metadata)
    resource = TpuRequestResource()
    changed = resource.changes(state["inputs"], dataclasses.asdict(stack.request), state["outputs"])
    assert changed == {"metadata": OnChange.REPLACE}
    assert resource.remarks(changed, state["outputs"]) == []
    assert resource.reasons(changed) == [
        "metadata replaces: of what hosts start with only their bundle can be changed while a request waits, so its "
        "place in the queue is lost"
    ]
    stack.up()
    assert numbers(api) != before
    serve(api, stack)
    assert bundle_of_hosts(api) == {NEW}


def test_a_request_of_a_release_whose_hosts_did_not_ask_loses_its_place(api: TpuApi, store: Path) -> None:
    stack = waiting(api, store)
    stack.destroy()
    stack.request = dataclasses.replace(stack.request, wanted_in="")
    stack.up()
    api.advance(60)
    stack.refresh()
    before, state = numbers(api), stack.state["request"]
    stack.request = asking(store, NEW)
    changed = TpuRequestResource().changes(state["inputs"], dataclasses.asdict(stack.request), state["outputs"])
    assert changed == {"metadata": OnChange.REPLACE}
    stack.up()
    assert numbers(api) != before
    serve(api, stack)
    assert bundle_of_hosts(api) == {NEW}


@pytest.mark.parametrize("then", [OLD, NEW], ids=["taken back", "again"])
def test_an_up_that_is_killed_once_it_has_said_the_bundle_is_put_right_by_the_next(
    api: TpuApi, store: Path, then: str
) -> None:
    """Whichever bundle is wanted then; the state knows only of the one before."""
    stack = waiting(api, store)
    before = numbers(api)
    (key,) = open_store(store).keys("wanted/")
    open_store(store).replace(key, f"{NEW}\n".encode())
    assert stack.changes() == ["request"]
    assert stack.state["request"]["outputs"]["differs"] == [f"bundle in {key}"]
    stack.request = asking(store, then)
    stack.up()
    assert (numbers(api), said(store), stack.changes()) == (before, [then], [])
    serve(api, stack)
    assert bundle_of_hosts(api) == {then}


def test_what_somebody_has_deleted_is_said_again_by_the_next_up(api: TpuApi, store: Path) -> None:
    stack = waiting(api, store)
    before = numbers(api)
    for key in list(open_store(store).keys("wanted/")):
        open_store(store).delete(key)
    assert stack.changes() == ["request"]
    stack.up()
    assert (numbers(api), said(store)) == (before, [OLD])


def test_nodes_that_nothing_has_changed_for_are_not_patched_and_never_start_the_bundle_before(
    api: TpuApi, store: Path
) -> None:
    stack = Stack(asking(store, OLD), api.advance)
    stack.up()
    (key,) = open_store(store).keys("wanted/")
    assert wanted_of(script_on_node(api)) == (str(store), key)
    assert (api.calls_of("UpdateNode"), stack.changes(), bundle_of_hosts(api)) == ([], [], {OLD})
    stack.request = asking(store, NEW)
    api.fail(FaultKind.DENIED, "UpdateNode")
    with pytest.raises(ResourceError):
        stack.up()
    (node,) = api.cloud.ledger.nodes
    api.cloud.levers.reboot(node)
    assert bundle_of_hosts(api) == {NEW}, "between its word and the patch"
    stack.up()
    assert script_on_node(api) == script(NEW, str(store))
    assert stack.changes() == []


def test_a_node_that_is_taken_over_asks_for_nothing_that_the_other_state_has_said(api: TpuApi, store: Path) -> None:
    first = Stack(asking(store, OLD), api.advance)
    first.up()
    second = Stack(dataclasses.replace(asking(store, OLD), take_over=first.holding), api.advance)
    second.up()
    assert wanted_of(script_on_node(api)) == (str(store), "")
    assert said(store) == [OLD, OLD]
    first.destroy()
    assert said(store) == [OLD]
    assert second.changes() == []
    second.destroy()
    assert said(store) == []


def test_a_refused_up_leaves_nothing_once_it_is_destroyed(api: TpuApi, store: Path) -> None:
    Stack(asking(store, OLD), api.advance).up()
    refused = Stack(asking(store, NEW), api.advance)
    with pytest.raises(ResourceError, match="from another clone or backend"):
        refused.up()
    refused.destroy()
    assert said(store) == [OLD]


def test_another_store_is_told_too_and_none_is_left_told(api: TpuApi, store: Path, tmp_path: Path) -> None:
    stack = Stack(asking(store, OLD), api.advance)
    stack.up()
    stack.request = asking(tmp_path / "another", OLD)
    stack.up()
    assert (said(store), said(tmp_path / "another")) == ([OLD], [OLD]), "what boots meanwhile may ask the first"
    stack.destroy()
    assert (said(store), said(tmp_path / "another")) == ([], [])


def test_a_store_that_does_not_answer_stops_no_preview_and_no_chips_from_being_deleted(
    api: TpuApi, store: Path
) -> None:
    stack = Stack(asking(store, OLD), api.advance)
    stack.up()
    (key,) = open_store(store).keys("wanted/")
    open_store(store).delete(key)
    (store / key).mkdir()  # nothing reads that as an object
    assert stack.changes() == []
    assert any(line.startswith("which bundle hosts learn when they boot is not known: ") for line in stack.lines)
    with pytest.raises(StoreError):
        stack.destroy()
    assert (api.cloud.ledger.requests, api.cloud.ledger.nodes) == ({}, {})
    (store / key).rmdir()
    stack.destroy()
    assert stack.state == {}


def test_a_request_is_the_same_with_any_bundle_where_its_hosts_ask_for_it(store: Path) -> None:
    old, new = (dataclasses.replace(asking(store, bundle), identity="i") for bundle in (OLD, NEW))
    assert fingerprint(old) == fingerprint(new)
    told = [dataclasses.replace(each, wanted_in="") for each in (old, new)]
    assert len({fingerprint(each) for each in (old, *told)}) == 3, "one that does not ask is another"
    sent = str(body(old, ZONES[0])["tpu"]["node_spec"][0]["node"]["metadata"][STARTUP_SCRIPT])
    assert (bundle_of(sent), wanted_of(sent)) == (OLD, (str(store), "wanted/s/i"))
    nameless = dataclasses.replace(old, identity="")  # a state of 0.1.0
    assert (nameless.wanted_key, nameless.metadata_asking) == ("", nameless.metadata)
