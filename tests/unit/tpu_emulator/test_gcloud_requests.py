"""The TPU API emulator against every request that the real gcloud sent (tests/gcloud/), without gcloud."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import requests

from infra.emulators.tpu_api import TpuApi
from tests.gcloud.sessions import SESSIONS, TOKEN, Command, Script, emulator, recording_of
from tests.golden_files import GOLDEN


def recorded(name: str) -> list[dict[str, Any]]:
    return json.loads((GOLDEN / recording_of(name)).read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SESSIONS)
def test_every_command_of_a_session_was_recorded(name: str) -> None:
    steps = [str(step) if isinstance(step, Command) else (step.path, step.values) for step in SESSIONS[name]]
    assert steps == [one.get("command") or (one["script"], one["values"]) for one in recorded(name)]
    assert all(one["calls"] for one in recorded(name) if "command" in one)


@pytest.mark.parametrize("name", SESSIONS)
def test_what_gcloud_sent_is_answered_as_it_was(name: str) -> None:
    with emulator() as api, requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        for step, recording in zip(SESSIONS[name], recorded(name), strict=True):
            if isinstance(step, Script):
                session.post(f"{api.url}/_/{step.path}", json=step.values, timeout=900).raise_for_status()
                continue
            answers: list[requests.Response] = []
            for call in recording["calls"]:
                begun = answers[-1].json().get("name", "") if answers else ""
                answers.append(send(session, api, call, begun))
            statuses = [answer.status_code for answer in answers]
            assert statuses == [call["status"] for call in recording["calls"]], step
            check_part(step.answer, answers[-1].json(), str(step))


def send(session: requests.Session, api: TpuApi, call: dict[str, Any], begun: str) -> requests.Response:
    """Operations are asked for by the name they have now: what they were called then is nobody's concern."""
    target = re.sub(r"projects/[^?]*/operations/[^?]*", begun, call["target"])
    return session.request(call["method"], f"{api.url}{target}", json=call["body"], timeout=900)


def check_part(expected: Any, answer: Any, where: str) -> None:
    """Everything expected is in the answer; lists are as long as expected."""
    if isinstance(expected, dict):
        for key, value in expected.items():  # pyright: ignore[reportUnknownVariableType]
            assert key in answer, f"{where}: no {key} in {answer}"
            check_part(value, answer[key], f"{where}: {key}")
    elif isinstance(expected, list):
        assert len(expected) == len(answer), f"{where}: {answer}"  # pyright: ignore[reportUnknownArgumentType]
        for one, other in zip(expected, answer, strict=True):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            check_part(one, other, where)
    else:
        assert expected == answer, where
