"""Target local, whole: the real engine, our provider, real processes, real MaxText."""

from __future__ import annotations

import getpass
import json
import platform
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts.layout import bundle_key, wheelhouse_key
from infra.targets.local import processes
from tests.engine.clone import Clone, said
from tests.engine.project import kill_engine, until
from training.host_status import HostStatus, Phase, read_status

SAVE_EVERY = 20  # a save costs some ten steps, and nobody waits for these trainings


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    made = Clone.make(tmp_path_factory.mktemp("clone") / "a path with a space")
    yield made
    processes.kill_all(made.directory)


def test_the_road(clone: Clone) -> None:
    """Own text, a killed host, a stop, a run to its end; then destroy. A start of two hosts is what costs here."""
    corpus = clone.directory / "corpus"
    corpus.mkdir()
    for number, source in enumerate(sorted((clone.directory / "infra").rglob("*.py"))[:12]):
        (corpus / f"{number}.txt").write_text(source.read_text() * 5)
    wanted = {
        "data": "corpus/*.txt",
        "data_options": {"heldout_fraction": 0.2, "max_epochs": 100},
        "on_destroy": "delete",
        "training": {"checkpoint_period": SAVE_EVERY},
    }
    work = clone.work("local.road")

    clone.stack("local.road", steps=4000, **wanted)
    up = clone.pulumi("up", "local.road")
    assert up.returncode == 0, said(up)
    (data,) = (clone.directory / ".slipway" / "data").iterdir()
    prepared = (data / "manifest.json").stat().st_mtime_ns
    unchanged = clone.pulumi("preview", "local.road", "--expect-no-changes")
    assert unchanged.returncode == 0, said(unchanged)

    # A killed host is named by the other, and up starts both again; what was saved counts in tests/training/.
    status = clone.status("local.road")
    run, victim = Path(status["run_directory"]), status["hosts"][1]["pid"]
    until(lambda: own_word(clone, "local.road").phase in (Phase.COMPILING, Phase.TRAINING), "the hosts have met")
    for number in (signal.SIGSTOP, signal.SIGKILL):  # or one of them sees another's end, and says so
        for process in processes.labelled(work / "hosts" / "1"):
            process.send_signal(number)
    until(lambda: not processes.labelled(work), "host 0 has noticed")
    survivor, lost = clone.status("local.road")["hosts"]
    assert (survivor["phase"], lost["phase"]) == ("failed", "lost")
    assert survivor["reason"].startswith("host 1 was lost (")
    drift = clone.pulumi("preview", "local.road", "--expect-no-changes")
    assert drift.returncode != 0
    assert "host-1" in said(drift)
    again = clone.pulumi("up", "local.road")
    assert again.returncode == 0, said(again)
    assert re.search(r"training tokens: \d+\.\d", said(again)), "the share of an epoch is said before anything starts"
    until(lambda: goes_on(clone, "local.road", SAVE_EVERY), "training goes on past the checkpoint")
    assert clone.status("local.road")["hosts"][1]["pid"] != victim

    # A stop saves, and the run goes on from there to another end.
    stopped = clone.run("slipway", "stop", "local.road")
    assert stopped.returncode == 0, said(stopped)
    status = clone.status("local.road")
    assert status["phase"] == "interrupted"
    saved = status["step"]
    clone.stack("local.road", steps=saved + 3, **wanted)
    shorter = clone.make_goal("up", "STACK=local.road")
    assert shorter.returncode == 0, said(shorter)
    assert "Updating" in shorter.stdout and "Previewing" not in shorter.stdout
    assert f"goes on, to step {saved + 3} instead of 4000" in said(shorter)
    assert (data / "manifest.json").stat().st_mtime_ns == prepared, "prepared once"
    assert f"local.road finished: step {saved + 3} of {saved + 3}" in shorter.stdout
    assert "training loss, nats per token" in shorter.stdout
    assert "held-out loss" in shorter.stdout
    assert "the unigram entropy of the same split" in " ".join(shorter.stdout.split())
    status = clone.status("local.road")
    assert (status["phase"], [host["step"] for host in status["hosts"]]) == ("finished", [saved + 3] * 2)
    last = json.loads((work / "hosts" / "0" / "status.json").read_text())
    assert (last["step"], last["resumed_from"]) == (saved + 3, saved)

    starts = [json.loads(path.read_text()) for path in sorted((run / "starts").iterdir())]
    assert [start["steps"] for start in starts] == [4000, saved + 3]
    assert {start["by"] for start in starts} == {f"{getpass.getuser()}@{platform.node()}"}
    first, second = starts
    artifacts = clone.directory / ".slipway" / "artifacts"
    assert first["wheelhouse"] == second["wheelhouse"] and (artifacts / wheelhouse_key(first["wheelhouse"])).exists()
    assert first["bundle"] != second["bundle"], "another run spec is another bundle"
    assert all((artifacts / bundle_key(start["bundle"])).exists() for start in starts)

    clone.stack("local.road", steps=10_000_000, **wanted)
    greedy = clone.pulumi("preview", "local.road")
    assert greedy.returncode != 0
    assert "epochs, and max_epochs is 100; raise data_options.max_epochs, lower steps or give more data" in said(greedy)

    destroyed = clone.pulumi("destroy", "local.road")
    assert destroyed.returncode == 0, said(destroyed)
    assert not data.exists(), "on_destroy: delete"
    assert not work.exists()

    apart = clone.run("slipway", "data", "prepare", "corpus/*.txt", "--out", "apart", "--tokenizer", "none")
    assert apart.returncode == 0, said(apart)
    assert json.loads((clone.directory / "apart" / "manifest.json").read_text())["train"]["tokens"] is None


def test_destroy_after_a_killed_up_leaves_nothing(clone: Clone) -> None:
    """The engine dies in the middle of creating hosts, so the state never learns of them; the guard ends them."""
    clone.stack("local.orphan", steps=4000)
    engine = clone_engine(clone, "up", "local.orphan")
    (first, *_) = until(lambda: processes.labelled(clone.work("local.orphan")), "a host has been started")
    first.suspend()  # its installation does not end, so `up` does not either
    until(lambda: len(processes.labelled(clone.work("local.orphan"))) >= 2, "both hosts have been started")
    kill_engine(engine)
    first.resume()
    destroyed = clone.pulumi("destroy", "local.orphan")
    assert destroyed.returncode == 0, said(destroyed)
    assert "lock" in said(destroyed), "the killed engine's lock is cleared with a notice"
    assert processes.labelled(clone.work("local.orphan")) == []
    assert not (clone.work("local.orphan") / "hosts").exists()


def test_names_stop_replay_start_and_what_is_kept(clone: Clone) -> None:
    """A second up is refused, Ctrl-C of watch stops nothing, another model is a new run, a step is done again, and
    destroy keeps what is saved.
    """
    elsewhere = clone.directory.parent / "another disk"
    one_host: dict[str, Any] = {"accelerator": "cpu-2", "steps": 4000, "runs": str(elsewhere)}
    mesh = {"ici_data_parallelism": 1, "ici_fsdp_parallelism": 2, "checkpoint_period": SAVE_EVERY}
    work = clone.work("local.names")
    clone.stack("local.names", mesh, **one_host)
    engine = clone_engine(clone, "up", "local.names")
    until(lambda: (work / "hosts").exists(), "the first up is at work")
    second = clone.pulumi("up", "local.names")
    assert second.returncode != 0
    assert "Traceback" not in said(second)
    assert str(engine.pid) in said(second), "it says who holds the stack"
    assert engine.wait(timeout=900) == 0
    run = Path(clone.status("local.names")["run_directory"])

    watching = subprocess.Popen(
        clone.command("slipway", "watch", "local.names"),
        cwd=clone.directory,
        env=clone.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert watching.stdout.readline().startswith("local.names host 0")
    watching.send_signal(signal.SIGINT)
    told, _ = watching.communicate(timeout=900)
    assert "training goes on; see it again with `slipway watch local.names`" in told
    assert watching.returncode == 130

    # Stopped, since a training would take the processor from all that needs none.
    until(lambda: goes_on(clone, "local.names", SAVE_EVERY), "training goes on past a checkpoint")
    assert clone.run("slipway", "stop", "local.names").returncode == 0
    stopped = clone.status("local.names")
    assert stopped["phase"] == "interrupted"
    assert clone.run("slipway", "logs", "local.names", "--host", "0").stdout
    too_early = clone.run("slipway", "purge", "local.names", "--yes")
    assert "stack 'local.names' is still deployed; first run: make destroy STACK=local.names" in too_early.stderr

    other = mesh | {"base_mlp_dim": 128}
    clone.stack("local.names", other, **one_host)
    preview = clone.pulumi("preview", "local.names")
    assert "new run local.names-" in said(preview)
    assert "training.base_mlp_dim: 64 -> 128" in said(preview)
    clone.stack("local.names", other, **one_host, run_name=run.name)
    refused = clone.pulumi("up", "local.names")
    assert refused.returncode != 0
    assert f"run '{run.name}' belongs to other settings (training.base_mlp_dim: 64 -> 128)" in said(refused)
    assert "Traceback" not in said(refused)
    clone.stack("local.names", mesh, **one_host)
    untouched = clone.status("local.names")
    assert (untouched["phase"], untouched["step"]) == (stopped["phase"], stopped["step"])

    replayed = clone.run("slipway", "replay", "local.names", "--step", str(stopped["step"] - 2))
    assert replayed.returncode == 0, said(replayed)
    steps = [line for line in replayed.stdout.splitlines() if line.startswith("step ")]
    assert steps and all(line.endswith("; bit-equal") for line in steps), replayed.stdout
    assert clone.run("slipway", "start", "local.names").returncode == 0
    until(lambda: goes_on(clone, "local.names", stopped["step"]), "training goes on from there")

    # Destroy while it trains: nothing is left running, what was saved stays until it is purged.
    destroyed = clone.make_goal("destroy", "STACK=local.names")
    assert destroyed.returncode == 0, said(destroyed)
    assert run.parent == elsewhere / "local.names"
    assert f"kept checkpoints and metrics in {run.parent}" in said(destroyed)
    assert processes.labelled(work) == []
    assert not (work / "hosts").exists()
    assert (run / "checkpoints" / str(SAVE_EVERY)).is_dir()
    left = clone.status("local.names")
    (host,) = left["hosts"]
    assert (left["phase"], host["phase"], left["run_directory"]) == ("absent", "lost", str(run))
    assert host["step"] >= stopped["step"] and host["step_s"] > 0 and host["tflops_per_s"] > 0
    assert host["mfu"] is None, "a processor has no peak"
    assert clone.run("slipway", "purge", "local.names", "--yes").returncode == 0
    assert not run.exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stpes": 3}, "unknown key 'stpes'"),
        ({"data": "nowhere/*.txt"}, "input 'nowhere/*.txt' matches no file"),
        ({"data_options": {"tokenizer": "absent.model"}, "data": "stdlib"}, "absent.model"),
        ({"training": {"ici_fsdp_parallelism": 3}}, "make the ici_*_parallelism keys multiply to 8"),
    ],
)
def test_bad_input_stops_at_preview(clone: Clone, settings: dict[str, object], message: str) -> None:
    clone.stack("local.bad", **settings)  # pyright: ignore[reportArgumentType]
    preview = clone.pulumi("preview", "local.bad")
    assert preview.returncode != 0
    assert message in said(preview)
    assert "Traceback" not in said(preview)
    assert not (clone.work("local.bad")).exists()


def test_a_port_in_use_stops_at_preview(clone: Clone) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        clone.stack("local.port", coordinator_port=port)
        preview = clone.pulumi("preview", "local.port")
    assert preview.returncode != 0
    assert f"port {port} is in use by another program" in said(preview)


def own_word(clone: Clone, stack: str) -> HostStatus:
    """What host 0 says of itself: cheaper to ask again and again than the command."""
    status = read_status(clone.work(stack) / "hosts" / "0")
    return status or HostStatus(Phase.STARTING, started=0, updated=0)


def goes_on(clone: Clone, stack: str, step: int) -> bool:
    word = own_word(clone, stack)
    return word.phase is Phase.TRAINING and word.step > step


def clone_engine(clone: Clone, verb: str, stack: str) -> subprocess.Popen[str]:
    command = clone.command("pulumi", verb, "--stack", stack, "--yes", "--skip-preview")
    return subprocess.Popen(
        command,
        cwd=clone.directory,
        env=clone.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
    )
