"""The emulated Vertex AI as people use it: the command, the page, the levers that it shows."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from typing import Any

import pytest
import requests
from typer.testing import CliRunner

from infra.commands import emulate
from infra.emulators.vertex_jobs import VertexApi
from tests.unit.vertex_jobs.caller import PARENT, REGION, Caller, pool, wanted

SECRET = {"imageUri": "i", "env": [{"name": "A", "value": "WORD-OF-THE-SCRIPT"}]}


def test_the_command_serves_until_ctrl_c() -> None:
    command = [sys.executable, "-c", "from infra.commands.main import main; main()", "emulate", "vertex"]
    command += ["--port", "0", "--run", "--speed", "1000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        url = re.findall(r"http://127.0.0.1:\d+", process.stdout.readline())[0]
        exported = process.stdout.readline().strip()
        assert exported.startswith(
            f"in another shell: export SLIPWAY_VERTEX_ENDPOINT={url} STORAGE_EMULATOR_HOST=http:"
        )
        job = wanted(pools=[pool(containerSpec={"imageUri": "i", "command": ["sleep", "604"]})])
        answer = requests.post(f"{url}/v1/{PARENT}/customJobs", json=job, timeout=900)
        assert answer.json()["state"] == "JOB_STATE_QUEUED"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read().endswith("ended\n")
        assert process.wait(timeout=900) == 0


def test_the_command_says_what_is_wrong_with_a_port(api: VertexApi) -> None:
    taken = CliRunner().invoke(emulate.app, ["vertex", "--port", str(api.port)])
    assert (taken.exit_code, "give another one with --port" in taken.output) == (2, True)


def test_the_page_is_one_file_that_fetches_nothing_else(api: VertexApi) -> None:
    answer = requests.get(f"{api.url}/", timeout=900)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert not re.findall(r"""(?:src|href)=|@import|url\(|https?://""", answer.text)
    assert "`/_/${path}`" in answer.text


def test_the_page_is_not_told_what_containers_are_told(api: VertexApi, caller: Caller) -> None:
    name = caller.running(pools=[pool(containerSpec=SECRET)], labels={"run": "a"})
    state: Any = caller.control("state", method="GET")
    (job,) = state["jobs"]
    assert "WORD-OF-THE-SCRIPT" not in json.dumps(state)
    assert (job["name"], job["state"], job["machines"]) == (name, "JOB_STATE_RUNNING", "1 x a3-megagpu-8g")
    assert (job["labels"], job["replicas"]) == ({"run": "a"}, {"workerpool0-0": None})


def test_limits_are_shown_and_taken_back(caller: Caller) -> None:
    machines = {"region": REGION, "machine": "a3-megagpu-8g", "count": 2, "terms": "SPOT"}
    caller.control("machines", machines)
    caller.control("quota", {"project": "p", "region": REGION, "metric": "m", "units": 8})
    state = caller.control("state", method="GET")
    assert state["machines"] == [machines]
    assert [limit["units"] for limit in state["quotas"]] == [8]
    caller.control("machines", machines | {"count": None})
    caller.control("quota", {"project": "p", "region": REGION, "metric": "m", "units": None})
    state = caller.control("state", method="GET")
    assert (state["machines"], state["quotas"]) == ([], [])


@pytest.mark.parametrize("closed", [True, False])
def test_a_region_is_closed_and_opened(caller: Caller, closed: bool) -> None:
    caller.control("region", {"region": REGION, "closed": closed})
    answer = requests.get(f"{caller.api.url}/v1/{PARENT}/customJobs", timeout=30)
    assert answer.status_code == (403 if closed else 200)


def test_faults_and_calls_are_forgotten(caller: Caller) -> None:
    caller.control("faults", {"kind": "UNAVAILABLE", "rpc": "ListCustomJobs", "times": 2})
    assert [fault["kind"] for fault in caller.control("faults", method="GET")] == ["UNAVAILABLE"]
    caller.control("faults", method="DELETE")
    assert caller.titles() == []
    assert [call["rpc"] for call in caller.control("calls", method="GET")] == ["ListCustomJobs"]
    caller.control("calls", method="DELETE")
    assert caller.control("calls", method="GET") == []
