"""The TPU API emulator as scripts and people use it: control paths, state file, command, page."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
import requests
from google.api_core import exceptions
from typer.testing import CliRunner

from infra.commands import emulate
from infra.emulators.tpu_api import Cloud, QuotaTier, TpuApi
from tests.unit.tpu_emulator.client import PARENT, TIMINGS, UNTIL_READY_S, ZONE, Client, control


def test_scripts_steer_it_over_http(api: TpuApi, client: Client) -> None:
    control(api, "stockout", {"zone": ZONE, "accelerator": "v6e"})
    client.create(spot={}, labels={"stack": "s"})
    control(api, "advance", {"seconds": 100})
    assert client.state() == "WAITING_FOR_RESOURCES"
    control(api, "capacity", {"zone": ZONE, "accelerator": "v6e", "chips": 64})
    control(api, "quota", {"project": "p", "place": ZONE, "family": "v6e", "units": 128, "tier": "spot"})
    control(api, "reservation", {"name": f"{PARENT}/reservations/r", "family": "v6e", "chips": 8})
    control(api, "advance", {"seconds": 60})
    control(api, "ready", {"node": client.node_name(), "worker": 2})
    control(api, "attribute", {"node": client.node_name(), "worker": 0, "namespace": "a", "key": "b", "value": "c"})
    state = control(api, "state", method="GET")
    (request,), (node,) = state["requests"], state["nodes"]
    assert (request["state"], request["hosts_ready"], request["hosts"]) == ("ACTIVE", 1, 8)
    assert (request["labels"], node["hosts"][1:4]) == ({"stack": "s"}, [False, True, False])
    assert state["capacities"] == [{"zone": ZONE, "accelerator": "v6e", "used": 32, "chips": 64}]
    assert (state["quotas"][0]["used"], state["quotas"][0]["unit"]) == (32, "chips")
    control(api, "node", {"node": client.node_name(), "state": "REPAIRING", "why": "w"})
    assert client.nodes() == {"q": "REPAIRING"}
    control(api, "preempt", {"name": client.request()})
    assert client.state() == "SUSPENDING"
    control(api, "fail", {"name": client.request(), "message": "m"})
    assert client.state() == "FAILED"
    assert {"CreateQueuedResource", "GetQueuedResource"} <= {call["rpc"] for call in control(api, "calls", None, "GET")}
    control(api, "calls", method="DELETE")
    assert control(api, "calls", None, "GET") == []


def test_faults_are_added_and_forgotten_over_http(api: TpuApi, client: Client) -> None:
    control(api, "faults", {"kind": "UNAVAILABLE", "rpc": "CreateQueuedResource", "times": 2})
    with pytest.raises(exceptions.ServiceUnavailable):
        client.create()
    assert [fault["happened"] for fault in control(api, "faults", None, "GET")] == [1]
    control(api, "faults", method="DELETE")
    client.create()


@pytest.mark.parametrize(
    ("path", "values", "complaint"),
    [
        ("faults", {"kind": "BROKEN"}, "kinds: TOO_MANY_REQUESTS"),
        ("preempt", {"name": "nothing"}, "nothing to preempt"),
        ("capacity", {"zone": ZONE, "accelerator": "v6f", "chips": 1}, "v6f"),
        ("capacity", {"zone": "us-east5-x", "accelerator": "v6e", "chips": 1}, "nearest: us-east5-"),
        ("quota", {"project": "p", "place": "us-east", "family": "v6e", "units": 1}, "nearest: us-east"),
        ("reservation", {"name": "r", "family": "v6e", "chips": 1}, "projects/<project>/locations"),
        ("advance", {}, "seconds"),
        ("nowhere", {}, "POST /_/advance"),
    ],
)
def test_a_wrong_script_is_told_what_there_is(api: TpuApi, path: str, values: Any, complaint: str) -> None:
    answer = requests.post(f"{api.url}/_/{path}", json=values, timeout=900)
    assert answer.status_code in (400, 404)
    assert complaint in answer.json()["error"]


def test_a_snapshot_brings_everything_back(api: TpuApi, client: Client) -> None:
    api.cloud.levers.set_quota("p", ZONE, "v6e", 64, QuotaTier.SPOT)
    api.cloud.levers.set_reservation(f"{PARENT}/reservations/r", "v6e", 8)
    client.create(spot={}, slices=2, labels={"a": "b"}, request_id=str(uuid.uuid4()))
    api.advance(UNTIL_READY_S)
    kept = json.loads(json.dumps(control(api, "snapshot", None, "GET")))
    before = (client.get(), client.node("q-1"), client.ready("q-0"))
    api.cloud.levers.preempt(client.request())
    api.advance(3600)
    control(api, "restore", kept)
    assert (client.get(), client.node("q-1"), client.ready("q-0")) == before
    assert json.loads(json.dumps(api.cloud.ledger.snapshot())) == kept


def test_a_state_of_an_older_emulator_is_read(api: TpuApi, client: Client) -> None:
    client.create()
    kept = json.loads(json.dumps(control(api, "snapshot", None, "GET")))
    del kept["projects"], kept["pools"]["refused"], kept["behaviour"]["hidden_from"]
    for request in kept["requests"]:
        del request["extras"], request["runs_for_s"]
    control(api, "restore", kept)
    assert client.requests() == ["q"]


def test_a_state_file_outlives_the_emulator(tmp_path: Path) -> None:
    file = tmp_path / "cloud.json"
    for expected in (["q"], ["q", "r"]):
        with TpuApi(Cloud(TIMINGS), state=file) as api:
            client = Client(api.url)
            client.create("r" if expected[1:] else "q", accelerator_type="v6e-1")
            assert client.requests() == expected
            client.google.transport.close()


def test_the_command_serves_until_ctrl_c_and_keeps_its_state(tmp_path: Path) -> None:
    file = tmp_path / "cloud.json"
    command = [sys.executable, "-c", "from infra.commands.main import main; main()", "emulate", "tpu"]
    command += ["--port", "0", "--speed", "0", "--state", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = re.findall(r"http://127.0.0.1:\d+", process.stdout.readline())[0]
        exported = process.stdout.readline().strip()
        assert exported.startswith(f"in another shell: export SLIPWAY_TPU_ENDPOINT={url} STORAGE_EMULATOR_HOST=http://")
        client = Client(url)
        client.create()
        assert client.state() == "CREATING"
        client.google.transport.close()
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().endswith(f"ended; its state is in {file}, its buckets in {file}.buckets\n")
        assert process.wait(timeout=900) == 0
    assert [request["name"] for request in json.loads(file.read_text())["requests"]] == [f"{PARENT}/queuedResources/q"]


def test_the_command_says_what_is_wrong_with_port_and_state(tmp_path: Path) -> None:
    (tmp_path / "cloud.json").write_text("{}")
    runner = CliRunner()
    with TpuApi() as api:
        taken = runner.invoke(emulate.app, ["tpu", "--port", str(api.port)])
        assert (taken.exit_code, "give another one with --port" in taken.output) == (2, True)
    other = runner.invoke(emulate.app, ["tpu", "--port", "0", "--state", str(tmp_path / "cloud.json")])
    assert (other.exit_code, "is not a state of this emulator" in other.output) == (2, True)
    nowhere = runner.invoke(emulate.app, ["tpu", "--port", "0", "--state", str(tmp_path / "no" / "cloud.json")])
    assert (nowhere.exit_code, "give a file in a directory that is there" in nowhere.output) == (2, True)


def test_the_page_is_one_file_that_fetches_nothing_else(api: TpuApi) -> None:
    answer = requests.get(f"{api.url}/", timeout=900)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not re.findall(r"""(?:src|href)=|@import|url\(|https?://""", answer.text)
    assert "`/_/${path}`" in answer.text


def test_the_page_is_not_told_metadata_or_bodies(api: TpuApi, client: Client) -> None:
    client.create(metadata={"startup-script": "WORD-OF-THE-SCRIPT"})
    api.advance(UNTIL_READY_S)
    assert "WORD-OF-THE-SCRIPT" not in json.dumps(control(api, "state", None, "GET"))
    assert "WORD-OF-THE-SCRIPT" in json.dumps(api.calls[0].body)
