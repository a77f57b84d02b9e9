"""Every call of a verb x every fault x what becomes of the engine, each in processes of its own that are really killed.

    python -m tests.unit.fault_matrix [--few SHARE SEED] <verb>...
                              prints one JSON object: cases, those that ran, failures; `answers`, `owners`: all of those

How a case is acted out and killed: killed_actor.py. What the engine had in its state when it died goes into the next
`up` or `destroy`, and then the cloud is looked at. In some cases another clone has a request of the same stack: that is
still there at the end, as it was, unless this one was asked to take it over and has.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra import emulated
from infra.artifacts.opening import open_store
from infra.emulators.tpu_api import Behaviour, Call, Cloud, FaultKind, QuotaTier, Timings, TpuApi, ZoneRefusal
from infra.emulators.tpu_api.records import Hidden, NodeState
from infra.names import OWNER_LABEL
from infra.providers.resource import ResourceError
from infra.targets.tpu_vm.provider import tpu_api, tpu_cleanup
from infra.targets.tpu_vm.provider.tpu_inputs import QueuedResourceInputs
from infra.targets.tpu_vm.provider.tpu_ownership import holder_of, made_of
from tests.unit.emulated_engine import EmulatedContext
from tests.unit.killed_actor import (
    DESTROY,
    ENDS,
    FEW,
    GIVEN_UP,
    MEANINGS,
    OF_READS,
    PATIENCE_S,
    Actor,
    Ask,
    Case,
    CaseError,
    run_all,
)
from tests.unit.tpu_stack import OWNER, ZONES, Stack, labels_in, script, telling, wanted

# The artifact store, in the directory of each case, where hosts learn their bundle.
STORE, BUNDLE, OTHER = "artifacts", "a" * 16, "b" * 16


def asked(**changes: Any) -> QueuedResourceInputs:
    return wanted(**telling(BUNDLE, STORE) | changes)


LABELS = {**asked().labels, "team": "a"}
# Every state is passed through, in few polls.
TIMINGS = Timings(admit_s=1, select_s=1, provision_s=8, boot_s=8, host_stagger_s=0, suspend_s=2, delete_s=2, update_s=1)
_APPEARS_S = "8"  # longer than an answer of the emulator is late


def _nothing(_: Stack, __: Cloud) -> None:
    return


def _deployed(stack: Stack, _: Cloud) -> None:
    stack.up()


def _relabelled(stack: Stack, _: Cloud) -> None:
    stack.up()
    stack.request = asked(labels=LABELS)


def _suspended(stack: Stack, cloud: Cloud) -> None:
    stack.up()
    cloud.levers.preempt(next(iter(cloud.ledger.nodes)))
    stack.advance(60)


def _expiring(stack: Stack, cloud: Cloud) -> None:
    """The first zone has no room: SliceReady moves the request to the second."""
    cloud.levers.stockout("us-east5-b", "v6e")
    stack.request = asked(valid_until_s=20)


def _refused(how: ZoneRefusal, stays: bool = False) -> Callable[[Stack, Cloud], None]:
    """The first zone refuses: at the call, in the operation, or by a request that FAILED."""

    def before(stack: Stack, cloud: Cloud) -> None:
        cloud.levers.refuse("us-east5-b", how, "", stays)
        stack.request = asked(tier="on-demand")

    return before


def _over_quota(_: Stack, cloud: Cloud) -> None:
    cloud.levers.set_quota("p", "us-east5-b", "v6e", 0, QuotaTier.SPOT)


def _unwell(state: NodeState) -> Callable[[Stack, Cloud], None]:
    def before(stack: Stack, cloud: Cloud) -> None:
        stack.up()
        cloud.levers.set_node_state(next(iter(cloud.ledger.nodes)), state)

    return before


def _beside_anothers_update(stack: Stack, cloud: Cloud) -> None:
    """gcloud writes its keys while labels change."""
    _relabelled(stack, cloud)
    node = {
        "name": next(iter(cloud.ledger.nodes)),
        "metadata": {"startup-script": script(OTHER, STORE), "ssh-keys": "me:key"},
    }
    tpu_api.update_node(EmulatedContext(stack.advance, [], 60), node, ["metadata"])


def _asking(**terms: Any) -> Callable[[Stack, Cloud], None]:
    def before(stack: Stack, _: Cloud) -> None:
        stack.request = asked(**terms)

    return before


def _rebundled(stack: Stack, _: Cloud) -> None:
    """It waits until its time has come, and is told of another bundle meanwhile."""
    stack.request, stack.wait = asked(valid_after_s=120), False
    stack.up()
    stack.request = asked(valid_after_s=120, **telling(OTHER, STORE))


def _reserved(stack: Stack, cloud: Cloud) -> None:
    cloud.levers.set_reservation("projects/p/locations/us-east5-b/reservations/r", "v6e", 64)
    stack.request = asked(tier="reserved", reservation="-", zones=["us-east5-b"])


def _changed(owner: str = OWNER, **inputs: Any) -> Callable[[Stack, Cloud], None]:
    """The stack file says something else of what its things are told by or looked for under."""

    def before(stack: Stack, _: Cloud) -> None:
        stack.up()
        stack.owner, stack.request = owner, asked(labels={**asked().labels, OWNER_LABEL: owner}, **inputs)

    return before


def _beside_another_clone(stack: Stack, _: Cloud) -> None:
    Stack(stack.request, stack.advance).up()


def _taking_over(stack: Stack, _: Cloud) -> None:
    other = Stack(stack.request, stack.advance)
    other.up()
    labels = {**asked().labels, OWNER_LABEL: "bob"}
    stack.owner, stack.request = "bob", asked(labels=labels, take_over=other.holding)


def _taken_over(stack: Stack, _: Cloud) -> None:
    stack.up()
    Stack(asked(take_over=stack.holding), stack.advance).up()


def _up(stack: Stack) -> None:
    stack.up()


def _destroy(stack: Stack) -> None:
    stack.destroy()


def _refused_up(stack: Stack) -> None:
    """As it is beside what another clone has."""
    try:
        stack.up()
    except ResourceError as error:
        if "from another clone or backend, and this state does not know it" not in str(error):
            raise


@dataclass(frozen=True)
class Verb:
    """What is there before, what is done while the fault happens, and how the cloud behaves meanwhile."""

    before: Callable[[Stack, Cloud], None]
    act: Callable[[Stack], None]
    kinds: tuple[FaultKind, ...] = tuple(FaultKind)
    behaviour: Behaviour = Behaviour()  # noqa: RUF009 - frozen
    beside: bool = False  # what another clone has
    keeps_its_place: bool = False


def _late(hidden: Hidden) -> Behaviour:
    return Behaviour(appears_after_s=6, hidden_from=hidden)


# Whatever may fail fails at each of these; what the real service was seen to answer is combined with few faults, and
# what may be another's with one fault of each meaning.
VERBS: dict[str, Verb] = {
    "create": Verb(_nothing, _up),
    "update": Verb(_relabelled, _up),
    "recover": Verb(_suspended, _up),
    "move": Verb(_expiring, _up),
    "refresh": Verb(_deployed, Stack.refresh),
    "destroy": Verb(_deployed, _destroy),
}
ANSWERS: dict[str, Verb] = {
    "quota of the zone": Verb(_over_quota, _up, FEW),
    "zone is closed": Verb(_refused(ZoneRefusal.LOCATION_POLICY), _up, FEW),
    "accelerator not in zone": Verb(_refused(ZoneRefusal.NOT_IN_ZONE), _up, FEW),
    "no capacity": Verb(_refused(ZoneRefusal.NO_CAPACITY), _up, FEW),
    "no capacity, and it stays": Verb(_refused(ZoneRefusal.NO_CAPACITY, stays=True), _up, FEW),
    "none for sale": Verb(_refused(ZoneRefusal.NONE_FOR_SALE), _up, FEW),
    "none for sale, and it stays": Verb(_refused(ZoneRefusal.NONE_FOR_SALE, stays=True), _up, FEW),
    "appears late": Verb(_nothing, _up, FEW, _late(Hidden.GET)),
    "is listed late": Verb(_nothing, _up, FEW, _late(Hidden.LIST)),
    "is deleted late": Verb(_nothing, _up, FEW, _late(Hidden.DELETE)),
    "the next one is listed late": Verb(_suspended, _up, FEW, _late(Hidden.LIST)),
    "project is an id": Verb(_suspended, _up, FEW, Behaviour(project_numbers=False)),
    "operations say more": Verb(_relabelled, _up, FEW, Behaviour(extras_in_operations=True)),
    "another's update": Verb(_beside_anothers_update, _up, FEW),
    "repairing": Verb(_unwell(NodeState.REPAIRING), _up, FEW),
    "repair has failed": Verb(_unwell(NodeState.UNKNOWN), _up, FEW),
    "both ends of an interval": Verb(_asking(valid_after_s=5, valid_until_s=3600), _up, FEW),
    "any reservation": Verb(_reserved, _up, FEW),
    "another bundle while it waits": Verb(_rebundled, _up, MEANINGS, keeps_its_place=True),
    "flex-start": Verb(_asking(tier="flex-start", max_run_duration_s=86_400), _up, FEW),
}
OWNERS: dict[str, Verb] = {
    "another owner": Verb(_changed("bob"), _up, MEANINGS),
    "another owner, other terms": Verb(_changed("bob", tier="on-demand", zones=ZONES[::-1]), _up, MEANINGS),
    "its zone is removed": Verb(_changed(zones=ZONES[1:]), _up, MEANINGS),
    "another name": Verb(_changed(name="other"), _up, MEANINGS),
    "another project": Verb(_changed(project="p2"), _up, MEANINGS),
    "another clone": Verb(_beside_another_clone, _refused_up, MEANINGS, beside=True),
    "take over": Verb(_taking_over, _up, MEANINGS, beside=True),
    "taken over": Verb(_taken_over, _refused_up, MEANINGS, beside=True),
    "destroy of what was taken over": Verb(_taken_over, _destroy, MEANINGS, beside=True),
}
ALL = VERBS | ANSWERS | OWNERS


@dataclass(frozen=True)
class Start:
    """What a verb begins with, and the calls that it makes where nothing goes wrong."""

    directory: Path  # with the artifact store
    cloud: dict[str, Any]  # its snapshot
    state: dict[str, Any]
    request: QueuedResourceInputs
    owner: str
    calls: tuple[Call, ...]

    def stack(self, advance: Callable[[float], None], state: dict[str, Any]) -> Stack:
        return Stack(self.request, advance, owner=self.owner, state=state)


def _act_evenly(verb: str, stack: Stack) -> None:
    """With the same pauses each time, which have a random part: how often a wait asks depends on them."""
    random.seed(verb)
    ALL[verb].act(stack)


def start_of(verb: str, work: Path) -> Start:
    directory = Path(tempfile.mkdtemp(dir=work))
    os.chdir(directory)
    with TpuApi(Cloud(TIMINGS, ALL[verb].behaviour)) as api:
        os.environ[emulated.TPU] = api.url
        stack = Stack(asked(), api.advance)
        ALL[verb].before(stack, api.cloud)
        begun = (copy.deepcopy(api.cloud.ledger.snapshot()), copy.deepcopy(stack.state), stack.request, stack.owner)
        made = len(api.calls)
        kept = shutil.copytree(directory, directory / "before", ignore=shutil.ignore_patterns("before"))
        _act_evenly(verb, stack)
        for project in ("p", "p2"):
            tpu_cleanup.settle_s(project, stack.label)  # forgets what this process has deleted: a case's has nothing
        return Start(kept, *begun, tuple(api.calls[made:]))


def cases(verb: str, calls: Sequence[Call]) -> list[Case]:
    """Each call's first time, and its last where it changes something, searches, or may meet what is another's.

    What hosts say of themselves decides nothing of whose a thing is: its calls fail in the verbs of every fault alone.
    """
    found: list[Case] = []
    for rpc in dict.fromkeys(call.rpc for call in calls):
        if rpc == "GetGuestAttributes" and verb not in VERBS:
            continue
        count = sum(call.rpc == rpc for call in calls)
        makes_operation = any(call.makes_operation for call in calls if call.rpc == rpc)
        searches = verb == "destroy" and rpc.startswith("List")
        late = count - 1 if searches or verb in OWNERS or (makes_operation and verb in VERBS) else 0
        kinds = ALL[verb].kinds if makes_operation or verb not in VERBS else OF_READS
        for skip in sorted({0, late}):
            of_call = [kind for kind in kinds if makes_operation or not kind.is_of_operation]
            ends = (*ENDS, GIVEN_UP) if ALL[verb].beside else ENDS
            found += [Case(verb, kind, rpc, skip, end) for kind in of_call for end in ends]
    return found


# --- the actor: engine and provider ---


def _act(case: Case, start: Start, ask: Ask) -> None:
    stack = start.stack(lambda seconds: ask("pause", seconds), copy.deepcopy(start.state))
    stack.checkpoint = lambda: ask("state", stack.state)
    _act_evenly(case.verb, stack)


# --- the case: emulator, fault, killing ---


def run(case: Case, start: Start) -> None:
    """Raises where the cloud is not as it should be afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(shutil.copytree(start.directory, directory, dirs_exist_ok=True))
        _run(case, start)


def _run(case: Case, start: Start) -> None:
    api = TpuApi(Cloud(TIMINGS, ALL[case.verb].behaviour))
    api.cloud.ledger.restore(start.cloud)
    before = _holders(api.cloud)
    os.environ[emulated.TPU] = f"http://127.0.0.1:{api.port}"
    actor = Actor.forked(lambda ask: _act(case, start, ask))
    with api:
        kept, _ = actor.watched(case, start.state, api)
        stack = start.stack(api.advance, kept)
        if ALL[case.verb].beside:
            _recover_beside_another(case, api, stack, before)
        else:
            _recover(case, api, stack)
        if ALL[case.verb].keeps_its_place and api.cloud.ledger.requests and _holders(api.cloud) != before:
            raise CaseError(f"its place is lost: {before} is {_holders(api.cloud)}")


def _recover(case: Case, api: TpuApi, stack: Stack) -> None:
    if case.end != DESTROY and case.verb != "destroy":
        stack.up()
        _check_up(api, stack)
        return  # what `destroy` does of one of each, which the state knows, is a case of its own
    stack.destroy()
    if api.cloud.ledger.requests or api.cloud.ledger.nodes or _told():
        raise CaseError(f"left: {[*api.cloud.ledger.requests, *api.cloud.ledger.nodes, *_told()]}")


def _told() -> dict[str, str]:
    """What hosts would learn when they boot, by who has said it."""
    there = open_store(STORE)
    return {key.rpartition("/")[2]: there.read(key).decode().strip() for key in there.keys("wanted/")}


def _holders(cloud: Cloud) -> dict[str, tuple[int, str]]:
    """Which requests are there, and which state has each."""
    return {
        name: (request.number, holder_of(labels_in(cloud, name))) for name, request in cloud.ledger.requests.items()
    }


def _recover_beside_another(case: Case, api: TpuApi, stack: Stack, before: dict[str, tuple[int, str]]) -> None:
    takes = stack.request.take_over != ""
    destroys = case.end in (DESTROY, GIVEN_UP) or ALL[case.verb].act is _destroy
    if not destroys:
        _up(stack) if takes else _refused_up(stack)
        if takes:
            _check_up(api, stack)
    identity = stack.state["guard"]["outputs"]["identity"] if "guard" in stack.state else ""
    has_taken = identity in [holder for _, holder in _holders(api.cloud).values()]
    if has_taken and not takes:
        raise CaseError(f"taken: {before} is {_holders(api.cloud)}")
    if takes and not destroys and not has_taken:
        raise CaseError("not taken")
    stack.destroy()
    if _holders(api.cloud) != ({} if has_taken else before):
        raise CaseError(f"of {before} it left {_holders(api.cloud)}")
    if identity in _told():
        raise CaseError(f"it left what it has told hosts: {_told()}")


def _check_up(api: TpuApi, stack: Stack) -> None:
    names = list(api.cloud.ledger.requests)
    if len(names) != 1 or len(api.cloud.ledger.nodes) != 1:
        raise CaseError(f"not one of each: {names}, {list(api.cloud.ledger.nodes)}")
    zone = stack.state["ready"]["outputs"]["zone"]
    if names[0] != stack.request.path(zone):
        raise CaseError(f"{names[0]} is not in {zone}")
    guard, request = (stack.state[name]["outputs"] for name in ("guard", "request"))
    is_there = labels_in(api.cloud, names[0])
    if (guard["identity"], request["made"]) != (holder_of(is_there), made_of(is_there)) or zone not in guard[
        "searched"
    ]:
        raise CaseError(f"its state would not delete {names[0]}: {is_there}")
    if planned := stack.changes():
        raise CaseError(f"a second preview plans {planned}")
    (node,) = api.cloud.ledger.nodes.values()
    if dict(node.message.labels).items() < stack.request.labels.items():
        raise CaseError("labels are not as wanted")
    running = {host.bundle for host in node.hosts}
    if (_told().get(guard["identity"]), running) != (stack.request.bundle, {stack.request.bundle}):
        raise CaseError(f"hosts run {running} and learn {_told()}, not {stack.request.bundle}")


# --- all cases ---


def main(verbs: list[str], share: float = 1.0, seed: str = "") -> None:
    with tempfile.TemporaryDirectory() as work:
        _main(_starts(verbs, Path(work)), share, seed)


def _main(starts: dict[str, Start], share: float, seed: str) -> None:
    every = [case for verb in starts for case in cases(verb, starts[verb].calls)]
    run_all(list(starts), every, lambda case: run(case, starts[case.verb]), share, seed)


def _starts(verbs: list[str], work: Path) -> dict[str, Start]:
    """Of each verb. Whatever is loaded or compiled on the way is there in every case."""
    starts = {verb: start_of(verb, work) for verb in verbs}
    for thread in set(threading.enumerate()) - {threading.current_thread()}:
        thread.join(PATIENCE_S)  # of an emulator that is closed: who has threads must not fork
        assert not thread.is_alive(), thread
    return starts


if __name__ == "__main__":
    tpu_api.types()
    for name in os.environ.keys() - {"HOME", "PATH"}:
        del os.environ[name]  # each call of an HTTP client looks for proxies among them
    os.environ[tpu_cleanup.APPEARS] = _APPEARS_S
    _names = sys.argv[1:]
    _few: tuple[float, str] = (1.0, "")
    if _names[0] == "--few":
        _few, _names = (float(_names[1]), _names[2]), _names[3:]
    _lists = {"answers": ANSWERS, "owners": OWNERS}
    main([verb for name in _names for verb in _lists.get(name, [name])], *_few)
