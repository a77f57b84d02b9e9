"""Real MaxText on two hosts with two virtual devices each: what a run does, and what it says, however it ends."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from infra.emulators.metadata_server import MetadataServer
from tests.training.cluster import (
    COMPILED,
    ROOT,
    Cluster,
    LaunchedHost,
    free_port,
    heldout_losses,
    losses,
    plain_environment,
    record,
    wait_until,
)
from tests.training.small_disk import SmallDisk
from tests.training.tiny import TINY, prepared_text
from training import paces
from training.checkpoints import labels
from training.data.identity import read_manifest
from training.exit_codes import ExitCode
from training.host_status import HostStatus, Phase
from training.plan import load
from training.run_spec import DataSpec, MaxTextValue, RunSpec
from training.standstill import Activity, Measures, Took

STANDS = "the previous checkpoint stands"
STEPS, LONGER, SAVE_EVERY, EVALUATE_EVERY = 40, 46, 12, 16
FIELDS = TINY | {
    "dropout_rate": 0.1,
    "checkpoint_period": SAVE_EVERY,
    "learning_rate_schedule_steps": 1000,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> DataSpec:
    """Under a path with a space and a bracket."""
    root = tmp_path_factory.mktemp("data")
    return prepared_text(root, root / "prepared [1]")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, COMPILED)
    yield cluster
    cluster.clean_up()


def spec_of(output: Path, data: DataSpec | None, *, steps: int = STEPS, hosts: int = 2, **maxtext: object) -> RunSpec:
    evaluation = {"eval_interval": EVALUATE_EVERY} if data else {}
    fields = FIELDS | evaluation | maxtext
    return RunSpec("test", "run", "cpu", 1, hosts, 2, steps, str(output), data, fields)  # pyright: ignore[reportArgumentType]


RESUMED_FROM = SAVE_EVERY + 1


@dataclass(frozen=True)
class FinishedRun:
    """A run to its last step, and the spec that made it. `first`: what each host said of the start that was killed."""

    spec: RunSpec
    output: Path
    hosts: list[LaunchedHost]
    first: list[HostStatus]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, data: DataSpec) -> Iterator[FinishedRun]:
    """The training of host 1 is killed after a checkpoint, and all start again."""
    directory = tmp_path_factory.mktemp("finished")
    cluster = Cluster(directory, COMPILED, options=("--start-again",))
    spec = spec_of(directory / "out", data)
    try:
        hosts = cluster.start(spec, environ={"JAX_DEBUG_LOG_MODULES": "jax._src.compiler"})
        hosts[1].wait_for_step(SAVE_EVERY + 6)
        first = [host.status for host in hosts]
        os.kill(hosts[1].trainer, signal.SIGKILL)
        for host in hosts:
            host.end()
        yield FinishedRun(spec, directory / "out", hosts, first)
    finally:
        cluster.clean_up()


def last_line(host: LaunchedHost) -> str:
    return host.log.splitlines()[-1]


def test_finished_run_exits_0_and_says_so(finished: FinishedRun) -> None:
    for host in finished.hosts:
        assert host.process.returncode == ExitCode.FINISHED, host.log[-3000:]
        status = host.status
        assert (status.phase, status.step, status.exit_code) == (Phase.FINISHED, STEPS, 0)
        assert status.reason == f"all {STEPS} steps are done and saved"
        assert (
            last_line(host)
            == f"slipway: finished at step {STEPS} of {STEPS}: {status.reason}; next: raise `steps` to train on"
        )
        assert status.first_step_at is not None and status.started < status.first_step_at < status.updated
        assert status.tokens_per_s is not None and status.tokens_per_s > 0
        assert status.eta_s is None
        assert status.step_s and status.tflops_per_s, "of both its starts, as the record has them"


def test_every_step_is_in_the_record_although_maxtext_empties_its_file_at_evaluations(finished: FinishedRun) -> None:
    """Of the host whose training was killed: of those that its next start has done."""
    assert sorted(losses(finished.output, "run", 0)) == list(range(STEPS))
    after = [step for step in losses(finished.output, "run", 1) if step >= RESUMED_FROM]
    assert after == list(range(RESUMED_FROM, STEPS))


def test_held_out_loss_includes_the_last_step_and_agrees_on_all_hosts(finished: FinishedRun) -> None:
    first, *later = (STEPS - 1 - 2 * EVALUATE_EVERY, STEPS - 1 - EVALUATE_EVERY, STEPS - 1)
    found, other = (heldout_losses(finished.output, "run", host) for host in (0, 1))
    assert sorted(found) == [first, *later]
    assert [found[step] for step in later] == [other[step] for step in later]
    assert finished.hosts[0].status.heldout_loss == found[STEPS - 1]
    assert found[STEPS - 1] < found[first]


def test_held_out_text_is_read_to_its_end_by_the_host_with_most_of_it(finished: FinishedRun) -> None:
    """A host out of held-out text goes on with empty batches; every host gets to that point, so none of it is left."""
    for host in finished.hosts:
        assert "Generating a padding batch" in host.log


def test_a_killed_training_is_told_by_its_supervisor_and_all_start_again_with_the_same_losses(
    finished: FinishedRun,
) -> None:
    """Steps that the kill came after are done twice: their losses are those of the first time, to the last bit."""
    assert [host.resumed_from for host in finished.first] == [None, None]
    assert [host.status.resumed_from for host in finished.hosts] == [RESUMED_FROM, RESUMED_FROM]
    logs = [host.log.partition("; starts again in ") for host in finished.hosts]
    assert "slipway: killed (SIGKILL); " in finished.hosts[1].log
    assert logs[0][0].splitlines()[-1].startswith("slipway: host 1: killed (SIGKILL); ")
    for _, _, second in logs:
        assert "compilation cache hit for 'jit_train_step'" in second, "it has kept its program"
    first, second = lives(record(finished.output, "run", 0))
    assert len(first.keys() & second.keys()) > 1, "steps that were done twice"
    assert {step: first[step] for step in second if step in first} == {
        step: second[step] for step in second if step in first
    }


def lives(lines: Sequence[Mapping[str, float]]) -> tuple[dict[int, float], dict[int, float]]:
    """Training loss by step of the lines before and from the one that goes back to an earlier step."""
    curve = [(int(line["step"]), line["learning/loss"]) for line in lines if "learning/loss" in line]
    back = next(at for at, ((before, _), (after, _)) in enumerate(pairwise(curve), 1) if after <= before)
    return dict(curve[:back]), dict(curve[back:])


def test_run_with_nothing_left_exits_0_at_once(finished: FinishedRun, cluster: Cluster) -> None:
    for host in cluster.run(finished.spec):
        assert (host.process.returncode, host.status.phase, host.status.step) == (0, Phase.FINISHED, STEPS)
        assert host.status.reason == f"nothing left to train: a checkpoint holds {STEPS} steps, and steps is {STEPS}"
        assert "slipway: 2 hosts" not in host.log, "no training was started"


def test_half_of_the_hosts_go_on_with_the_same_batches(finished: FinishedRun, cluster: Cluster, data: DataSpec) -> None:
    output = cluster.directory / "out"
    shutil.copytree(finished.output, output)
    resumed = 2 * SAVE_EVERY + 1
    for label in labels(output / "run" / "checkpoints"):
        if label >= resumed:
            shutil.rmtree(output / "run" / "checkpoints" / str(label))
    before = len(record(output, "run", 0))
    [host] = cluster.run(spec_of(output, data, hosts=1, per_device_batch_size=2))
    assert (host.process.returncode, host.status.resumed_from) == (ExitCode.FINISHED, resumed), host.log[-3000:]
    again = {
        line["step"]: line["learning/loss"] for line in record(output, "run", 0)[before:] if "learning/loss" in line
    }
    assert sorted(again) == list(range(resumed, STEPS))
    reference = losses(finished.output, "run")
    for step, loss in again.items():
        assert loss == pytest.approx(reference[step], abs=1e-3), step


@pytest.mark.sample(0)  # a life in test_lives.py has the losses, and a stop of `local` the words
def test_stopped_run_saves_exits_75_and_resumes_bit_exact(
    finished: FinishedRun, cluster: Cluster, data: DataSpec
) -> None:
    output = cluster.directory / "out"
    spec = spec_of(output, data)
    hosts = cluster.start(spec)
    hosts[1].wait_for_step(SAVE_EVERY + 10)
    hosts[1].process.send_signal(signal.SIGTERM)  # one host is enough
    for host in hosts:
        assert host.end() == ExitCode.INTERRUPTED, host.log[-3000:]
        assert host.status.phase is Phase.INTERRUPTED
        assert host.status.reason == f"told to stop; {host.status.step} of {STEPS} steps are saved"
    stopped_at = hosts[0].status.step
    assert SAVE_EVERY + 10 <= stopped_at < STEPS
    for host in cluster.run(with_derived_period_of_eight_steps(hosts, dataclasses.replace(spec, steps=LONGER))):
        assert host.process.returncode == ExitCode.FINISHED, host.log[-3000:]
        assert (host.status.resumed_from, host.status.step) == (stopped_at, LONGER)
        assert "slipway: saves every 8 steps: " in host.log
    assert "slipway: saves every 8 steps: as host 0 has measured\n" in cluster.launched[-1].log
    assert (output / "run" / "checkpoints" / "40").is_dir()
    reference = losses(finished.output, "run")
    resumed = losses(output, "run")
    assert sorted(resumed) == [step for step in range(LONGER) if step != stopped_at - 1]
    # MaxText loses the metrics line of the step at which it stops; every other one is equal to the last bit.
    assert {step: loss for step, loss in resumed.items() if step < STEPS} == {
        step: loss for step, loss in reference.items() if step != stopped_at - 1
    }


def with_derived_period_of_eight_steps(hosts: list[LaunchedHost], spec: RunSpec) -> RunSpec:
    """The spec without a period of its own, with measures that host 0 alone has beside what both have measured."""
    for host in hosts:
        measured = paces.read(host.directory, paces.shape(load(host.directory / "plan.json")))
        assert measured.took.keys() >= {Activity.COMPILING, Activity.STEP, Activity.SAVE}
    made_up = Measures({Activity.STEP: Took(1.0, 1.0), Activity.SAVE: Took(2.0, 2.0)}, save_cost_s=8.0)
    paces.write(hosts[0].directory, paces.shape(load(hosts[0].directory / "plan.json")), made_up)
    fields = {key: value for key, value in spec.maxtext.items() if key != "checkpoint_period"}
    return dataclasses.replace(spec, maxtext=fields, interruption_s=4)


def test_the_platforms_notice_saves_and_no_start_follows_while_it_stands(cluster: Cluster) -> None:
    with MetadataServer() as server:
        spec, environ = spec_of(cluster.directory / "out", None, hosts=1), {"GCE_METADATA_HOST": server.host}
        [host] = cluster.start(dataclasses.replace(spec, steps=1_000_000), environ=environ)
        host.wait_for_step(5)
        wait_until("its own word of it", lambda: is_training(host))  # without one a stop has nothing to save
        server.change("instance/preempted", "TRUE")
        assert host.end() == ExitCode.INTERRUPTED, host.log[-3000:]
        assert str(host.status.reason).startswith("the platform preempts this host: told to stop; ")
        assert host.status.saved == host.status.step > 5
        [again] = cluster.start(spec, environ=environ)
        wait_until("its wait", lambda: "slipway: waits: the platform preempts this host" in again.log)
        again.process.send_signal(signal.SIGTERM)
        assert again.end() == ExitCode.INTERRUPTED
        assert "slipway: 1 hosts" not in again.log, "no training was started"


def test_stop_before_the_first_step_is_immediate_and_resumable(cluster: Cluster, data: DataSpec) -> None:
    [host] = cluster.start(spec_of(cluster.directory / "out", data, hosts=1))
    wait_until("compiling", lambda: host.phase is Phase.COMPILING)
    host.process.send_signal(signal.SIGTERM)
    assert host.end() == ExitCode.INTERRUPTED
    assert (host.status.phase, host.status.step) == (Phase.INTERRUPTED, 0)


def test_a_training_whose_nccl_took_plain_sockets_ends_before_its_first_step(cluster: Cluster) -> None:
    """On devices that have no NCCL; its line comes from here."""
    cluster.environ = {"SLIPWAY_NETWORK": "tcpxo", "SLIPWAY_SOCKETS": "refused", "NCCL_DEBUG": "INFO"}
    hosts = cluster.start(spec_of(cluster.directory / "out", None))
    for host in hosts:
        wait_until("its training's process", lambda host=host: (host.directory / "plan.json").exists())
    (hosts[1].directory / "nccl.log").write_text("host:1:2 [0] NCCL INFO Using network Socket\n")
    for host in hosts:
        assert host.end() == ExitCode.BAD_INPUT, host.log[-3000:]
        assert "NCCL fell back to plain sockets between hosts" in str(host.status.reason)
        assert "nccl-tcpxo-installer" in str(host.status.reason)


@pytest.mark.sample(0)  # the engine's test_the_road kills one too
@pytest.mark.parametrize(("killed", "survivor"), [(1, 0), (0, 1)])
def test_killed_host_is_named_by_the_other(cluster: Cluster, killed: int, survivor: int) -> None:
    hosts = cluster.start(spec_of(cluster.directory / "out", None, steps=1_000_000, checkpoint_period=100_000))
    hosts[survivor].wait_for_step(5)
    hosts[killed].kill_group()
    assert hosts[survivor].end() == ExitCode.FAILED
    status = hosts[survivor].status
    assert status.phase is Phase.FAILED
    assert status.reason is not None and status.reason.startswith(f"host {killed} was lost ("), hosts[survivor].log[
        -3000:
    ]
    assert status.reason.endswith(f"see host {killed} for why")


@pytest.mark.sample(1)
@pytest.mark.parametrize(("frozen", "other"), [(1, 0), (0, 1)])
def test_a_frozen_host_is_a_standstill_of_the_other_and_when_it_wakes_they_start_again_until_their_supervisors_die(
    cluster: Cluster, frozen: int, other: int
) -> None:
    """Host 0 has the connections by which hosts tell each other why they end. No training outlives its supervisor."""
    cluster.heartbeat_s, cluster.standstill_s, cluster.options = 60, 15, ("--start-again",)
    hosts = cluster.start(spec_of(cluster.directory / "out", None, steps=1_000_000))
    hosts[other].wait_for_step(30)
    os.killpg(hosts[frozen].process.pid, signal.SIGSTOP)
    wait_until("a standstill", lambda: "; starts again in " in hosts[other].log)
    log = hosts[other].log
    assert "slipway: stands still after step " in log, log[-3000:]
    assert "Current thread 0x" in log and "train.py" in log, "the stacks of all threads"
    assert f"host {frozen} does not answer" in log
    os.killpg(hosts[frozen].process.pid, signal.SIGCONT)
    wait_until("its end", lambda: "; starts again in " in hosts[frozen].log)
    # Of host 0 the other could not be heard while it was frozen; JAX may see its own silence sooner.
    for host in hosts:
        wait_until("another start", lambda host=host: (host.status.resumed_from or 0) > 12 and has_met_the_others(host))
    for host in hosts:
        host.process.kill()  # not the group
        host.process.wait()
        wait_until("empty group", lambda host=host: not group(host.process.pid))


def has_met_the_others(host: LaunchedHost) -> bool:
    assert host.process.poll() is None, host.log[-3000:]
    return host.phase in (Phase.COMPILING, Phase.TRAINING)


def is_training(host: LaunchedHost) -> bool:
    return has_met_the_others(host) and host.phase is Phase.TRAINING


# A thread of the process that trains takes Python's interpreter lock and keeps it, as a bug in a C extension may.
HOLDS_THE_LOCK = """
import ctypes, os, sys, threading, time
def hold():
    while not os.path.exists(os.environ["HOLD_WHEN"]):
        time.sleep(0.1)
    ctypes.PyDLL(None).sleep(100000)
if "training.trainer" in sys.orig_argv:
    threading.Thread(target=hold, daemon=True).start()
"""


def test_a_thread_that_holds_the_interpreter_lock_is_ended_with_its_stack(cluster: Cluster) -> None:
    (cluster.directory / "sitecustomize.py").write_text(HOLDS_THE_LOCK)
    environ = {"PYTHONPATH": str(cluster.directory), "HOLD_WHEN": str(cluster.directory / "now")}
    cluster.standstill_s = 5
    [host] = cluster.start(spec_of(cluster.directory / "out", None, steps=1_000_000, hosts=1), environ=environ)
    host.wait_for_step(30)
    (cluster.directory / "now").touch()
    assert host.end() == ExitCode.INTERRUPTED, host.log[-3000:]
    assert str(host.status.reason).startswith("stands still: its process has said nothing for 10 s; a thread holds ")
    assert 'sitecustomize.py", line 6 in hold' in host.log, host.log[-3000:]


def group(leader: int) -> list[int]:
    """Other processes of a process group."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != leader:
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[2]) == leader and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_port_in_use_is_one_sentence_before_jax_starts(cluster: Cluster) -> None:
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        [host] = cluster.start(spec_of(cluster.directory / "out", None, hosts=1), port=port)
        assert host.end() == ExitCode.BAD_INPUT
    assert host.status.reason == (
        f"coordinator port {port} cannot be opened on this host: Address already in use; "
        "end what uses it, or set another"
    )
    assert len(host.log.splitlines()) == 1


def test_wrong_device_count_is_refused(cluster: Cluster) -> None:
    [host] = cluster.run(spec_of(cluster.directory / "out", None, hosts=1), environ={"JAX_NUM_CPU_DEVICES": "3"})
    assert host.process.returncode == ExitCode.BAD_INPUT, host.log
    assert host.status.reason is not None
    assert host.status.reason.startswith(
        "JAX sees 1 host(s), 3 devices on this one, 3 in all; "
        "the run spec says 1 host(s), 2 devices on this one, 2 in all"
    )


def test_host_count_of_another_stack_is_refused(cluster: Cluster) -> None:
    spec = spec_of(cluster.directory / "out", None, hosts=1)
    [host] = cluster.run(spec, environ={"SLIPWAY_HOST_COUNT": "2"})
    assert host.process.returncode == ExitCode.BAD_INPUT
    assert "counts 2 hosts" in str(host.status.reason) and "the run spec 1" in str(host.status.reason)


def test_unknown_flag_is_named_before_jax_starts(cluster: Cluster) -> None:
    flags = "--xla_gpu_graph_level=0 --xla_no_such_flag=1"
    [host] = cluster.run(spec_of(cluster.directory / "out", None, hosts=1), environ={"XLA_FLAGS": flags})
    assert host.process.returncode == ExitCode.BAD_INPUT
    for name in ("--xla_gpu_graph_level=0", "--xla_no_such_flag=1"):
        assert f"{name} (from the host's XLA_FLAGS)" in str(host.status.reason)


def test_more_steps_than_data_is_refused_with_numbers(cluster: Cluster, data: DataSpec) -> None:
    [host] = cluster.run(spec_of(cluster.directory / "out", data, hosts=1, steps=1_000_000))
    tokens = read_manifest(Path(data.directory)).train.tokens
    assert host.process.returncode == ExitCode.BAD_INPUT
    assert str(host.status.reason).startswith(f"the run needs 64,000,000 of {tokens:,} training tokens: ")


def test_other_data_than_the_run_specs_is_refused(cluster: Cluster, data: DataSpec) -> None:
    other = dataclasses.replace(data, content="0" * 16)
    [host] = cluster.run(spec_of(cluster.directory / "out", other, hosts=1))
    assert host.process.returncode == ExitCode.BAD_INPUT
    assert str(host.status.reason).startswith(
        f"{data.directory} holds other data (its manifest says {data.content}, expected is {other.content}): "
    )


def test_unknown_maxtext_field_is_bad_input(cluster: Cluster) -> None:
    [host] = cluster.run(spec_of(cluster.directory / "out", None, hosts=1, per_devise_batch_size=3))
    assert host.process.returncode == ExitCode.BAD_INPUT, host.log[-3000:]
    assert str(host.status.reason).startswith("MaxText refuses the run's settings: ")
    assert "per_devise_batch_size" in str(host.status.reason)


def test_a_training_that_fails_says_why_and_is_tried_once_more(cluster: Cluster, data: DataSpec) -> None:
    """The manifest overstates the tokens, so that launch lets the run begin."""
    copy = cluster.directory / "data"
    copy.mkdir()
    for file in Path(data.directory).iterdir():
        (copy / file.name).symlink_to(file)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["train"]["tokens"] = 10**9
    (copy / "manifest.json").unlink()
    (copy / "manifest.json").write_text(json.dumps(manifest))
    little = dataclasses.replace(data, directory=str(copy), max_epochs=1)
    spec = spec_of(cluster.directory / "out", little, hosts=1, steps=100_000)
    spec = dataclasses.replace(spec, maxtext={**spec.maxtext, "eval_interval": -1, "per_device_batch_size": 64})
    cluster.options = ("--start-again",)
    [host] = cluster.run(spec)
    assert host.process.returncode == ExitCode.REPEATED
    assert str(host.status.reason).startswith("out of training data after "), host.log[-3000:]
    assert str(host.status.reason).endswith("; the same as at the start before, at the same step")


def test_a_record_that_cannot_be_read_is_named_with_its_file_on_both_hosts(cluster: Cluster, data: DataSpec) -> None:
    """A flipped bit in each record of one shard: its size is right, so the launch lets it begin."""
    copy = cluster.directory / "data"
    shutil.copytree(data.directory, copy)
    shard = sorted(copy.glob("train-*.array_record"))[0]
    content = bytearray(shard.read_bytes())
    for at in range(len(content) // 10, len(content) * 6 // 10, 150):
        content[at] ^= 1
    shard.write_bytes(content)
    spec = spec_of(cluster.directory / "out", dataclasses.replace(data, directory=str(copy)))
    reasons = [str(host.status.reason) for host in cluster.run(dataclasses.replace(spec, steps=200))]
    for reason in reasons:  # the other's, or its own, where both come to the shard at once
        own = re.sub(r"^host \d: ", "", reason)
        assert own.startswith("the training data cannot be read: ") and "Corrupted Riegeli/records file: " in own, (
            reason
        )
        assert f"{shard.name} in {copy} is damaged" in own and ", chunk at " in own, reason


BOUND = 3.0
SPIKE = re.compile(rf"the loss of step {STEPS + 1} is (?P<value>\S+) \(the loss was usually (?P<usual>\S+)\): ")


def test_a_loss_beyond_its_bound_and_numbers_that_are_none_end_all_hosts_and_the_next_start_goes_on_before_them(
    finished: FinishedRun, cluster: Cluster, data: DataSpec
) -> None:
    """With learning rates that no model survives: one gives a spike a step later, the other no number at once.

    The second is of one host in the place of both, for that ends are told is seen at the first.
    """
    output = cluster.directory / "out"
    shutil.copytree(finished.output, output)
    metrics, checkpoints = output / "run" / "metrics", output / "run" / "checkpoints"
    cluster.options = ("--start-again",)
    spiking = spoiling(output, data, 10.0)
    for index, host in enumerate(cluster.run(spiking)):
        own = ends_by_numbers(host, index)
        spike = SPIKE.match(own)
        assert spike and float(spike["value"]) > BOUND * float(spike["usual"]) > 0.0, own
        assert f"({metrics}/bad-step-{STEPS + 1}-host-" in own and own.endswith(f"goes on before checkpoint {STEPS}")
    before = contents(output / "run")
    again = replayed(cluster, spiking, STEPS + 1)
    assert again.returncode == 0, again.stderr
    assert contents(output / "run") == before, "a replay leaves a run as it is"
    said = again.stdout.splitlines()
    assert said[0] == f"steps {STEPS} to {STEPS + 1} of run run again, from checkpoint {STEPS - 1}"
    for line, step in zip(said[1:3], (STEPS, STEPS + 1), strict=True):
        assert line.startswith(f"step {step}: loss ") and line.endswith("; bit-equal"), line
    assert said[-len(records(metrics, STEPS + 1)) :] == records(metrics, STEPS + 1)
    spoiled = [label for label in labels(checkpoints) if label >= STEPS]
    assert spoiled[0] == STEPS, "whose state gave the loss"
    [host] = cluster.run(spoiling(output, data, 1e30, hosts=1, per_device_batch_size=2))
    own = ends_by_numbers(host, 0)
    assert own.startswith(f"the parameter norm of step {STEPS} is inf (the loss was usually "), own
    assert host.status.resumed_from == STEPS
    aside = {path.name for path in (output / "run" / "set-aside").iterdir() if path.is_dir()}
    assert aside == {str(label) for label in spoiled}
    assert f": set aside checkpoint {', '.join(map(str, spoiled))} (" in host.log
    assert math.isfinite(losses(output, "run")[STEPS])


def spoiling(output: Path, data: DataSpec, rate: float, *, hosts: int = 2, per_device_batch_size: int = 1) -> RunSpec:
    """Of as many steps as the spoiled checkpoints say are done; one is saved at each step, so that one is under way."""
    spoils: dict[str, MaxTextValue] = {
        "checkpoint_period": 1,
        "learning_rate": rate,
        "warmup_steps_fraction": 0.0,
        "per_device_batch_size": per_device_batch_size,
    }
    return dataclasses.replace(spec_of(output, data, steps=LONGER, hosts=hosts, **spoils), loss_spike=BOUND)


def ends_by_numbers(host: LaunchedHost, index: int) -> str:
    """Why, in the words of whichever host saw it first."""
    assert host.process.returncode == ExitCode.REPEATED, host.log[-3000:]
    assert "starts again" not in host.log
    return str(host.status.reason).removeprefix(f"host {1 - index}: ")


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()}


def replayed(cluster: Cluster, spec: RunSpec, step: int) -> subprocess.CompletedProcess[str]:
    (cluster.directory / "run_spec.yaml").write_text(spec.to_yaml())
    options = ["--step", str(step), "--cache-dir", str(cluster.cache)]
    command = [cluster.python, "-m", "training.replay", str(cluster.directory / "run_spec.yaml"), *options]
    environ = plain_environment() | {"SLIPWAY_COORDINATOR": f"127.0.0.1:{free_port()}"}
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


def records(metrics: Path, step: int) -> list[str]:
    """What the bad step has read, as a replay prints it."""
    said: list[str] = []
    for index in range(2):
        kept = json.loads((metrics / f"bad-step-{step}-host-{index}.json").read_text())
        said.append(f"host {index} reads for step {step}:")
        said += [f"  {one['file']}  record {one['record']}  {one['tokens']} tokens" for one in kept["records"]]
    return said


@pytest.mark.sample(1)
@pytest.mark.parametrize("index", [0, 1])
def test_a_disk_that_one_host_may_not_write_is_named_on_the_other(tmp_path: Path, index: int) -> None:
    """After the first checkpoint, as a kernel does that has met an error of the disk."""
    until = "until [ -d $DISK/run/checkpoints/4 ]; do sleep 0.1; done"
    trial = SmallDisk(tmp_path, COMPILED)
    spec = spec_of(trial.disk, None, checkpoint_period=4)
    statuses = trial.run(spec, "500m", f"{until}; nsenter -t $pid{index} -m mount -o remount,ro,bind $DISK")
    own, other = str(statuses[index].reason), str(statuses[1 - index].reason)
    assert own.startswith("the disk cannot be written any more: ")
    told = other.removeprefix(f"host {index}: ")
    assert told == own and STANDS in told
    assert {status.exit_code for status in statuses} == {ExitCode.FAILED}


def test_no_process_is_left_behind(finished: FinishedRun) -> None:
    for host in finished.hosts:
        assert group(host.process.pid) == []
        assert not Path(f"/proc/{host.process.pid}").exists() or os.getpid() != host.process.pid
