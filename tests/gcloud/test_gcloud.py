"""The real gcloud against the emulator: what it prints, how it ends, and what it sends, which is kept.

SLIPWAY_GOLDEN=1 writes what it sends anew.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pytest
import requests

from infra.emulators.tpu_api import TpuApi
from tests.advice import RUN_BY
from tests.gcloud.sessions import PROJECT, SESSIONS, TOKEN, Command, Script, emulator, recording_of
from tests.golden_files import check_golden

_TIMEOUT_S = 120


@pytest.mark.parametrize("name", SESSIONS)
def test_gcloud_works_against_the_emulator(name: str, tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = []
    with emulator() as api:
        for step in SESSIONS[name]:
            if isinstance(step, Script):
                assert requests.post(f"{api.url}/_/{step.path}", json=step.values, timeout=900).status_code == 200
                steps.append({"script": step.path, "values": step.values})
            else:
                steps.append({"command": str(step), "calls": run(api, step, tmp_path)})
    check_golden(recording_of(name), json.dumps(steps, indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("words", [words for words in RUN_BY if words.startswith("gcloud ")])
def test_gcloud_has_what_a_message_advises(words: str, tmp_path: Path) -> None:
    verbs, *flags = re.split(r" (?=--)", words)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1"}
    shown = subprocess.run(
        [*verbs.split(), "--help"], env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert (shown.returncode, verbs in " ".join(shown.stdout.split())) == (0, True), shown.stderr
    assert set(flags) <= set(re.findall(r"--[a-z-]+", shown.stdout))


def run(api: TpuApi, command: Command, home: Path) -> list[dict[str, Any]]:
    """What gcloud sent for one command."""
    known = len(api.calls)
    ended = subprocess.run(
        ["gcloud", *shlex.split(str(command))],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CLOUDSDK_CONFIG": str(home),
            "CLOUDSDK_AUTH_ACCESS_TOKEN": TOKEN,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{api.url}/",
            "CLOUDSDK_CORE_PROJECT": PROJECT,
            "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
            "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
        },
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    said = ended.stdout + ended.stderr
    assert (ended.returncode, command.prints in said) == (command.ends, True), f"gcloud {command}\n{said}"
    return [
        {"method": call.method, "target": _target(call.target), "body": _body(call.body), "status": call.status}
        for call in api.calls[known:]
    ]


def _target(target: str) -> str:
    """With the update mask in order: gcloud builds it from a set."""
    path, _, query = target.partition("?")
    parameters = [
        (key, ",".join(sorted(value.split(","))) if key == "updateMask" else value)
        for key, value in parse_qsl(query, keep_blank_values=True)
    ]
    return f"{path}?{urlencode(parameters)}"


def _body(body: Any) -> Any:
    """Without what is counted from gcloud's own clock: its milliseconds tell it from a time that was given."""
    clock = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.(?!000Z)\d+Z")
    return json.loads(clock.sub("2027-01-15T12:00:00.001Z", json.dumps(body)))
