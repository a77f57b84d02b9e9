"""Every call of a vertex stack's verbs x every fault x what becomes of the engine, in processes that are really killed.

    python -m tests.unit.vertex_matrix [--few SHARE SEED] <verb>...     `all`: every verb
                              prints one JSON object: cases, those that ran, failures

How a case is acted out and killed: killed_actor.py. Afterwards what the engine had in its state goes into the next `up`
or `destroy`, and then there is one job on the wanted terms, or none; another clone's is as it was.
"""

from __future__ import annotations

import copy
import os
import random
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from infra import emulated
from infra.emulators.call_faults import Call, FaultKind
from infra.emulators.vertex_jobs import JobBehaviour, JobCloud, JobTimings, MachineLimit, VertexApi
from infra.emulators.vertex_jobs.job_records import Region
from infra.emulators.vertex_jobs.replicas import PretendedReplicas
from infra.providers.resource import ResourceError
from infra.targets.vertex.provider import vertex_api, vertex_cleanup
from infra.targets.vertex.provider.vertex_inputs import VertexJobInputs
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
from tests.unit.vertex_stack import MACHINE, REGIONS, VertexStack, jobs_in, wanted

# Every state is passed through, in few polls.
TIMINGS = JobTimings(queue_s=1, provision_s=8, stockout_s=8, cancel_s=2, delete_s=2)
_APPEARS_S = "8"
_WRITES = ("CreateCustomJob", "CancelCustomJob", "DeleteCustomJob")
_QUOTA = "custom_model_training_nvidia_h100_mega_gpus"
OTHER = {"SLIPWAY_BUNDLE": "b" * 16}


def _nothing(_: VertexStack, __: VertexApi) -> None:
    return


def _deployed(stack: VertexStack, _: VertexApi) -> None:
    stack.up()


def _changed(stack: VertexStack, _: VertexApi) -> None:
    stack.up()
    stack.job = wanted(environment=OTHER)


def _exited(code: int) -> Callable[[VertexStack, VertexApi], None]:
    """Its master has ended by itself."""

    def before(stack: VertexStack, api: VertexApi) -> None:
        stack.up()
        (job,) = api.cloud.jobs.values()
        assert isinstance(api.cloud.replicas, PretendedReplicas)
        api.cloud.replicas.set_exit(job, "workerpool0-0", code)
        api.advance(30)

    return before


def _no_stock(_: VertexStack, api: VertexApi) -> None:
    api.cloud.stock.machines[MachineLimit(REGIONS[0], MACHINE)] = 0


def _no_quota(_: VertexStack, api: VertexApi) -> None:
    api.cloud.stock.quotas[Region.of(f"projects/p/locations/{REGIONS[0]}"), _QUOTA] = 8


def _closed(_: VertexStack, api: VertexApi) -> None:
    api.job_calls.closed_regions.add(REGIONS[0])


def _expires(stack: VertexStack, api: VertexApi) -> None:
    _no_stock(stack, api)
    stack.job = wanted(tier="flex-start", timeout_s=86_400, max_wait_s=20)


def _cancelled(stack: VertexStack, api: VertexApi) -> None:
    """By somebody's hand."""
    stack.up()
    (job,) = api.cloud.jobs.values()
    api.cloud.cancel(job)


def _elsewhere(stack: VertexStack, _: VertexApi) -> None:
    """Its region is no longer in the stack file."""
    stack.up()
    stack.job = wanted(regions=REGIONS[1:])


def _beside_another_clone(stack: VertexStack, _: VertexApi) -> None:
    VertexStack(stack.job, stack.advance).up()


def _up(stack: VertexStack) -> None:
    stack.up()


def _destroy(stack: VertexStack) -> None:
    stack.destroy()


def _refused_up(stack: VertexStack) -> None:
    try:
        stack.up()
    except ResourceError as error:
        if "from another clone or backend, and this state does not know it" not in str(error):
            raise


@dataclass(frozen=True)
class JobVerb:
    """What is there before, what is done while the fault happens, and how the cloud behaves meanwhile."""

    before: Callable[[VertexStack, VertexApi], None]
    act: Callable[[VertexStack], None] = _up
    kinds: tuple[FaultKind, ...] = tuple(FaultKind)
    behaviour: JobBehaviour = JobBehaviour()  # noqa: RUF009 - frozen
    beside: bool = False  # what another clone has
    is_done: bool = False  # its job has ended well, and stays as it is


VERBS: dict[str, JobVerb] = {
    "create": JobVerb(_nothing),
    "change": JobVerb(_changed),
    "recover": JobVerb(_exited(1)),
    "move": JobVerb(_no_stock),
    "destroy": JobVerb(_deployed, _destroy),
    "refresh": JobVerb(_deployed, VertexStack.refresh),
    "done": JobVerb(_exited(0), kinds=MEANINGS, is_done=True),
    "destroy of what is done": JobVerb(_exited(0), _destroy, MEANINGS),
    "no quota": JobVerb(_no_quota, kinds=MEANINGS),
    "region is closed": JobVerb(_closed, kinds=MEANINGS),
    "no machines in time": JobVerb(_expires, kinds=MEANINGS),
    "cancelled by hand": JobVerb(_cancelled, kinds=MEANINGS),
    "its region is removed": JobVerb(_elsewhere, kinds=MEANINGS),
    "is listed late": JobVerb(_nothing, behaviour=JobBehaviour(listed_after_s=6)),
    "is listed late, changed": JobVerb(_changed, kinds=MEANINGS, behaviour=JobBehaviour(listed_after_s=6)),
    "destroy of what is listed late": JobVerb(_nothing, kinds=FEW, behaviour=JobBehaviour(listed_after_s=6)),
    "project is an id": JobVerb(_changed, kinds=FEW, behaviour=JobBehaviour(project_numbers=False)),
    "ended jobs take a cancel": JobVerb(_changed, kinds=FEW, behaviour=JobBehaviour(ended_jobs_refuse_cancel=False)),
    "another clone": JobVerb(_beside_another_clone, _refused_up, MEANINGS, beside=True),
    "another clone, destroy": JobVerb(_beside_another_clone, _destroy, MEANINGS, beside=True),
}


@dataclass(frozen=True)
class JobStart:
    """What a verb begins with, and the calls that it makes where nothing goes wrong."""

    cloud: JobCloud  # what a case, a process of its own, goes on with
    closed: frozenset[str]  # regions
    state: dict[str, Any]
    job: VertexJobInputs
    calls: tuple[Call, ...]

    def stack(self, advance: Callable[[float], None], state: dict[str, Any]) -> VertexStack:
        return VertexStack(self.job, advance, state=state)


def _act_evenly(verb: str, stack: VertexStack) -> None:
    """With the same pauses each time, which have a random part: how often a wait asks depends on them."""
    random.seed(verb)
    VERBS[verb].act(stack)


def _emulator(verb: str) -> VertexApi:
    return VertexApi(JobCloud(TIMINGS, VERBS[verb].behaviour))


def _as_it_is(cloud: JobCloud) -> JobCloud:
    """Its jobs and machines, without logs."""
    stock, jobs = copy.deepcopy(cloud.stock), copy.deepcopy(cloud.jobs)
    return JobCloud(cloud.timings, cloud.behaviour, stock=stock, now_s=cloud.now_s, jobs=jobs)


def start_of(verb: str) -> JobStart:
    with _emulator(verb) as api:
        os.environ[emulated.VERTEX] = api.url
        stack = VertexStack(wanted(), api.advance)
        VERBS[verb].before(stack, api)
        cloud, closed = _as_it_is(api.cloud), frozenset(api.job_calls.closed_regions)
        state, job, made = copy.deepcopy(stack.state), stack.job, len(api.calls)
        _act_evenly(verb, stack)
        vertex_cleanup.settle_s("p", stack.label)  # forgets what this process has deleted: a case's has nothing
        calls = tuple(api.calls[made:])
    return JobStart(cloud, closed, state, job, calls)


def cases(verb: str, calls: Sequence[Call]) -> list[Case]:
    """Each call's first time, and its last where it changes something, or searches at the end."""
    found: list[Case] = []
    for rpc in dict.fromkeys(call.rpc for call in calls):
        count = sum(call.rpc == rpc for call in calls)
        writes = rpc in _WRITES
        kinds = VERBS[verb].kinds if writes or VERBS[verb].kinds == MEANINGS else OF_READS
        of_call = [kind for kind in kinds if rpc == "DeleteCustomJob" or not kind.is_of_operation]
        last = count - 1 if writes or rpc == "ListCustomJobs" else 0
        ends = (*ENDS, GIVEN_UP) if VERBS[verb].beside else ENDS
        found += [Case(verb, kind, rpc, skip, end) for skip in sorted({0, last}) for kind in of_call for end in ends]
    return found


def run(case: Case, start: JobStart) -> None:
    """Raises where the cloud is not as it should be afterwards."""
    api = VertexApi(start.cloud)
    api.job_calls.closed_regions |= start.closed
    before = jobs_in(api.cloud)
    os.environ[emulated.VERTEX] = f"http://127.0.0.1:{api.port}"
    actor = Actor.forked(lambda ask: _act(case, start, ask))
    with api:
        kept, _ = actor.watched(case, start.state, api)
        stack = start.stack(api.advance, kept)
        if VERBS[case.verb].beside:
            _recover_beside_another(case, api, stack, before)
        else:
            _recover(case, api, stack, before)


def _act(case: Case, start: JobStart, ask: Ask) -> None:
    stack = start.stack(lambda seconds: ask("pause", seconds), copy.deepcopy(start.state))
    stack.checkpoint = lambda: ask("state", stack.state)
    _act_evenly(case.verb, stack)


def _recover(case: Case, api: VertexApi, stack: VertexStack, before: dict[str, str]) -> None:
    if case.end != DESTROY and VERBS[case.verb].act is not _destroy:
        stack.up()
        _check_up(api, stack)
        if VERBS[case.verb].is_done and jobs_in(api.cloud) != before:
            raise CaseError(f"what was done is made again: {before} is {jobs_in(api.cloud)}")
        return  # what `destroy` does of one, which the state knows, is a case of its own
    stack.destroy()
    if left := jobs_in(api.cloud):
        raise CaseError(f"left: {left}")


def _recover_beside_another(case: Case, api: VertexApi, stack: VertexStack, before: dict[str, str]) -> None:
    if case.end not in (DESTROY, GIVEN_UP) and VERBS[case.verb].act is not _destroy:
        _refused_up(stack)
    stack.destroy()
    if jobs_in(api.cloud) != before:
        raise CaseError(f"of {before} it left {jobs_in(api.cloud)}")


def _check_up(api: VertexApi, stack: VertexStack) -> None:
    there = jobs_in(api.cloud)
    states = ("SUCCEEDED",) if list(there.values()) == ["SUCCEEDED"] else ("RUNNING",)
    if tuple(there.values()) != states:
        raise CaseError(f"not one that runs: {there}")
    (name,) = there
    if stack.outputs["name"].split("/")[2:] != name.split("/")[2:]:
        raise CaseError(f"its state has {stack.outputs['name']}, not {name}")
    if jobs_in(api.cloud, stack.identity) != there:
        raise CaseError("the guard would not delete it")
    if planned := stack.changes():
        raise CaseError(f"a second preview plans {planned}")
    (job,) = api.cloud.jobs.values()
    told = {each.name: each.value for each in job.message.job_spec.worker_pool_specs[0].container_spec.env}
    if told != stack.job.environment:
        raise CaseError(f"it runs {told}, not {stack.job.environment}")


def main(verbs: list[str], share: float = 1.0, seed: str = "") -> None:
    starts = {verb: start_of(verb) for verb in verbs}
    for thread in set(threading.enumerate()) - {threading.current_thread()}:
        thread.join(PATIENCE_S)  # of an emulator that is closed: who has threads must not fork
        assert not thread.is_alive(), thread
    every = [case for verb in verbs for case in cases(verb, starts[verb].calls)]
    run_all(verbs, every, lambda case: run(case, starts[case.verb]), share, seed)


if __name__ == "__main__":
    for name in os.environ.keys() - {"HOME", "PATH"}:
        del os.environ[name]  # each call of an HTTP client looks for proxies among them
    os.environ[vertex_cleanup.APPEARS] = _APPEARS_S
    assert vertex_api.API.service.real
    _names = sys.argv[1:]
    _few: tuple[float, str] = (1.0, "")
    if _names[0] == "--few":
        _few, _names = (float(_names[1]), _names[2]), _names[3:]
    main(list(VERBS) if _names == ["all"] else _names, *_few)
