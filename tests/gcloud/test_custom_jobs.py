"""The real `gcloud ai custom-jobs` against the emulated Vertex AI: what it prints, and what it sends, which is kept.

SLIPWAY_GOLDEN=1 writes what it sends anew.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from infra.emulators.vertex_jobs import VertexApi
from tests.gcloud.custom_jobs import PROJECT, RECORDING, SESSION, TOKEN, JobCommand, emulator
from tests.golden_files import check_golden

_TIMEOUT_S = 120


def test_gcloud_works_against_the_emulated_vertex_ai(tmp_path: Path) -> None:
    with emulator() as api:
        steps = [{"command": command.arguments, "calls": run(api, command, tmp_path)} for command in SESSION]
    check_golden(RECORDING, json.dumps(steps, indent=1, sort_keys=True) + "\n")


def run(api: VertexApi, command: JobCommand, home: Path) -> list[dict[str, Any]]:
    """What gcloud sent for one command."""
    known = len(api.calls)
    ended = subprocess.run(
        ["gcloud", *shlex.split(command.arguments)],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CLOUDSDK_CONFIG": str(home),
            "CLOUDSDK_AUTH_ACCESS_TOKEN": TOKEN,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM": f"{api.url}/",
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
    assert (ended.returncode, command.prints in said) == (command.ends, True), f"gcloud {command.arguments}\n{said}"
    calls = api.calls[known:]
    return [{"method": one.method, "target": one.target, "body": one.body, "status": one.status} for one in calls]
