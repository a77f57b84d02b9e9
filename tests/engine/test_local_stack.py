"""Target local, whole: the real engine, our provider, real processes, real MaxText."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.artifacts.layout import bundle_key, wheelhouse_key
from infra.targets.local import processes
from tests.engine.clone import Clone, said
from tests.engine.project import kill_engine, until


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clone]:
    made = Clone.make(tmp_path_factory.mktemp("clone") / "a path with a space")
    yield made
    processes.kill_all(made.directory)


def test_the_road(clone: Clone) -> None:
    """up prepares own text once and trains to the last step; nothing changes after it; more steps resume."""
    corpus = clone.directory / "corpus"
    corpus.mkdir()
    for number, source in enumerate(sorted((clone.directory / "infra").rglob("*.py"))[:12]):
        (corpus / f"{number}.txt").write_text(source.read_text() * 5)
    wanted = {"data": "corpus/*.txt", "data_options": {"heldout_fraction": 0.2}, "on_destroy": "delete"}

    clone.stack("local.road", steps=6, **wanted)
    up = clone.pulumi("up", "local.road")
    assert up.returncode == 0, said(up)
    (data,) = (clone.directory / ".slipway" / "data").iterdir()
    prepared = (data / "manifest.json").stat().st_mtime_ns

    watched = clone.run("slipway", "watch", "local.road")
    assert watched.returncode == 0, said(watched)
    assert "local.road finished: step 6 of 6" in watched.stdout
    assert "training loss, nats per token" in watched.stdout
    assert "held-out loss" in watched.stdout
    assert "the unigram entropy of the same split" in " ".join(watched.stdout.split())
    status = clone.status("local.road")
    assert (status["phase"], [host["step"] for host in status["hosts"]]) == ("finished", [6, 6])

    unchanged = clone.pulumi("preview", "local.road", "--expect-no-changes")
    assert unchanged.returncode == 0, said(unchanged)

    clone.stack("local.road", steps=9, **wanted)
    longer = clone.pulumi("up", "local.road")
    assert longer.returncode == 0, said(longer)
    assert "goes on, to step 9 instead of 6" in said(longer)
    assert "training tokens: 0.0" in said(longer), "the share of an epoch is said before anything starts"
    assert (data / "manifest.json").stat().st_mtime_ns == prepared, "prepared once"
    assert clone.run("slipway", "watch", "local.road").returncode == 0
    hosts = clone.work("local.road") / "hosts"
    last = json.loads((hosts / "0" / "status.json").read_text())
    assert (last["step"], last["resumed_from"]) == (9, 6)

    run = Path(clone.status("local.road")["run_directory"])
    record = json.loads((run / "record.json").read_text())
    assert [start["steps"] for start in record["starts"]] == [6, 9]
    first, second = record["starts"]
    artifacts = clone.directory / ".slipway" / "artifacts"
    assert first["wheelhouse"] == second["wheelhouse"] and (artifacts / wheelhouse_key(first["wheelhouse"])).exists()
    assert first["bundle"] != second["bundle"], "another run spec is another bundle"
    assert all((artifacts / bundle_key(start["bundle"])).exists() for start in record["starts"])

    clone.stack("local.road", steps=100_000, **wanted)
    greedy = clone.pulumi("preview", "local.road")
    assert greedy.returncode != 0
    assert "epochs, and max_epochs is 1; raise data_options.max_epochs, lower steps or give more data" in said(greedy)

    destroyed = clone.pulumi("destroy", "local.road")
    assert destroyed.returncode == 0, said(destroyed)
    assert processes.labelled(clone.work("local.road")) == []
    assert not data.exists(), "on_destroy: delete"
    assert not clone.work("local.road").exists()

    apart = clone.run("slipway", "data", "prepare", "corpus/*.txt", "--out", "apart", "--tokenizer", "none")
    assert apart.returncode == 0, said(apart)
    assert json.loads((clone.directory / "apart" / "manifest.json").read_text())["train"]["tokens"] is None


def test_a_killed_host_is_named_and_up_resumes(clone: Clone) -> None:
    clone.stack("local.kill", steps=4000, training={"checkpoint_period": 5})
    assert clone.pulumi("up", "local.kill").returncode == 0
    run = Path(clone.status("local.kill")["run_directory"])
    until(lambda: (run / "checkpoints" / "5").is_dir(), "a checkpoint")
    victim = clone.status("local.kill")["hosts"][1]["pid"]
    for process in processes.labelled(clone.work("local.kill") / "hosts" / "1"):
        process.send_signal(signal.SIGKILL)
    until(lambda: clone.status("local.kill")["hosts"][1]["phase"] == "lost", "host 1 is lost")
    until(lambda: clone.status("local.kill")["hosts"][0]["pid"] is None, "host 0 has noticed")
    survivor = clone.status("local.kill")["hosts"][0]
    assert survivor["phase"] == "failed"
    assert survivor["reason"].startswith("host 1 was lost (")

    drift = clone.pulumi("preview", "local.kill", "--expect-no-changes")
    assert drift.returncode != 0
    assert "host-1" in said(drift)

    again = clone.pulumi("up", "local.kill")
    assert again.returncode == 0, said(again)
    until(lambda: (clone.status("local.kill")["step"] or 0) > 5, "training goes on past the checkpoint")
    assert clone.status("local.kill")["hosts"][1]["pid"] != victim

    stopped = clone.run("slipway", "stop", "local.kill")
    assert stopped.returncode == 0, said(stopped)
    assert clone.status("local.kill")["phase"] == "interrupted"
    assert clone.run("slipway", "start", "local.kill").returncode == 0
    until(lambda: clone.status("local.kill")["phase"] == "training", "training again")

    # Destroy while it trains: nothing is left running, what was saved stays until it is purged.
    destroyed = clone.pulumi("destroy", "local.kill")
    assert destroyed.returncode == 0, said(destroyed)
    assert "kept checkpoints and metrics" in said(destroyed)
    assert processes.labelled(clone.work("local.kill")) == []
    assert not (clone.work("local.kill") / "hosts").exists()
    assert (run / "checkpoints" / "5").is_dir()
    assert clone.run("slipway", "purge", "local.kill", "--yes").returncode == 0
    assert not run.exists()


def test_destroy_after_a_killed_up_leaves_nothing(clone: Clone) -> None:
    """The engine dies in the middle of creating hosts, so the state never learns of them; the guard ends them."""
    clone.stack("local.orphan", steps=4000)
    engine = clone_engine(clone, "up", "local.orphan")
    until(lambda: len(processes.labelled(clone.work("local.orphan"))) >= 2, "both hosts have been started")
    kill_engine(engine)
    destroyed = clone.pulumi("destroy", "local.orphan")
    assert destroyed.returncode == 0, said(destroyed)
    assert "lock" in said(destroyed), "the killed engine's lock is cleared with a notice"
    assert processes.labelled(clone.work("local.orphan")) == []
    assert not (clone.work("local.orphan") / "hosts").exists()


def test_a_second_up_is_refused_ctrl_c_of_watch_stops_nothing_and_another_model_is_a_new_run(clone: Clone) -> None:
    clone.stack("local.names", steps=4000)
    engine = clone_engine(clone, "up", "local.names")
    until(lambda: (clone.work("local.names") / "hosts").exists(), "the first up is at work")
    second = clone.pulumi("up", "local.names")
    assert second.returncode != 0
    assert "Traceback" not in said(second)
    assert str(engine.pid) in said(second), "it says who holds the stack"
    assert engine.wait(timeout=120) == 0
    first = clone.status("local.names")["run_directory"]

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
    told, _ = watching.communicate(timeout=30)
    assert "training goes on; see it again with `slipway watch local.names`" in told
    assert watching.returncode == 130

    clone.stack("local.names", steps=4000, training={"base_mlp_dim": 128})
    preview = clone.pulumi("preview", "local.names")
    assert "new run local.names-" in said(preview)
    assert "training.base_mlp_dim: 64 -> 128" in said(preview)

    clone.stack("local.names", steps=4000, training={"base_mlp_dim": 128}, run_name=Path(first).name)
    refused = clone.pulumi("up", "local.names")
    assert refused.returncode != 0
    assert f"run '{Path(first).name}' belongs to other settings (training.base_mlp_dim: 64 -> 128)" in said(refused)
    assert "Traceback" not in said(refused)
    assert clone.status("local.names")["phase"] in ("starting", "compiling", "training"), "the run was not touched"
    assert clone.pulumi("destroy", "local.names").returncode == 0


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
    assert f"coordinator port {port} is in use by another program" in said(preview)


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
