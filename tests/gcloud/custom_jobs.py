"""What is asked of `gcloud ai custom-jobs`, in order, and what it must print."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from infra.emulators.vertex_jobs import JobCloud, JobTimings, VertexApi

PROJECT, TOKEN = "slipway-demo", "x"
RECORDING = "gcloud/custom-jobs.json"  # in tests/golden/
REGION = "--region=us-central1"
FIRST_JOB = 1_000_000_000_000_000_001
_START_S = 1_700_000_000.0
_POOL = (
    "--worker-pool-spec=machine-type=a3-megagpu-8g,accelerator-type=NVIDIA_H100_MEGA_80GB,accelerator-count=8,"
    "replica-count={count},container-image-uri=image@sha256:0"
)
_AB = "ai custom-jobs"


@dataclass(frozen=True)
class JobCommand:
    """gcloud's arguments. prints: what its output holds."""

    arguments: str
    prints: str
    ends: int = 0


SESSION = (
    JobCommand(
        f"{_AB} create {REGION} --display-name=mine --labels=run=a {_POOL.format(count=1)} {_POOL.format(count=3)} "
        "--command=python,-m,trainer --args=--steps=400 --service-account=a@slipway-demo.iam.gserviceaccount.com "
        "--network=projects/1/global/networks/n --enable-web-access",
        f"customJobs/{FIRST_JOB}] is submitted successfully",
    ),
    JobCommand(f"{_AB} list {REGION}", "displayName: mine"),
    JobCommand(f"{_AB} describe {FIRST_JOB} {REGION}", "state: JOB_STATE_RUNNING"),
    JobCommand(f"{_AB} cancel {FIRST_JOB} {REGION}", "has been sent"),
    JobCommand(f"{_AB} describe {FIRST_JOB} {REGION}", "message: CANCELED"),
    JobCommand(f"{_AB} cancel {FIRST_JOB} {REGION}", "FAILED_PRECONDITION", ends=1),
    JobCommand(f"{_AB} describe 5 {REGION}", "NOT_FOUND", ends=1),
    JobCommand(
        f"{_AB} create {REGION} --display-name=other "
        "--worker-pool-spec=machine-type=a9,replica-count=1,container-image-uri=i",
        'Machine type "a9" is not supported.',
        ends=1,
    ),
)


def emulator() -> VertexApi:
    """Time passes with calls alone, a second each, and ids are counted, so that every run is the same."""
    timings = JobTimings(queue_s=0, provision_s=1, cancel_s=0, delete_s=1)
    api = VertexApi(JobCloud(timings, now_s=_START_S), token=TOKEN, seconds_per_call=1)
    ids = itertools.count(FIRST_JOB)
    api.job_calls.new_id = lambda: str(next(ids))
    return api
