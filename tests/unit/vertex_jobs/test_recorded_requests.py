"""The emulated Vertex AI against every request that clients sent which nobody here wrote, without these clients.

gcloud's are those of tests/gcloud/, google-cloud-aiplatform's were recorded by tests/gcloud/aiplatform_client.py.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests

from tests.gcloud import aiplatform_client
from tests.gcloud.custom_jobs import RECORDING, SESSION, TOKEN, emulator
from tests.golden_files import GOLDEN


def recorded(name: str) -> list[Any]:
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def test_every_command_of_gcloud_was_recorded() -> None:
    assert [one["command"] for one in recorded(RECORDING)] == [command.arguments for command in SESSION]


@pytest.mark.parametrize("name", [RECORDING, aiplatform_client.RECORDING])
def test_what_a_client_sent_is_answered_as_it_was(name: str) -> None:
    with emulator() as api, requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {TOKEN}"
        for one in recorded(name):
            answers = [
                session.request(call["method"], f"{api.url}{call['target']}", json=call["body"], timeout=30)
                for call in one["calls"]
            ]
            assert answers
            assert [answer.status_code for answer in answers] == [call["status"] for call in one["calls"]]
