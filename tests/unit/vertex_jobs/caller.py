"""Calls of Vertex AI's REST API in one line each, as its documentation writes them, and the job they are about."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import requests

from infra.emulators.vertex_jobs import JobTimings, VertexApi

START_S = 1_800_000_000.0
TIMINGS = JobTimings(queue_s=2, provision_s=60, stockout_s=600, cancel_s=10, delete_s=2)
UNTIL_RUNNING_S = 62
REGION = "us-central1"
PARENT = f"projects/p/locations/{REGION}"
NUMBERED = f"projects/345434927424/locations/{REGION}"  # made up by the emulator and always the same
H100_QUOTA = "custom_model_training_nvidia_h100_mega_gpus"
SPOT_QUOTA = "custom_model_training_preemptible_nvidia_h100_mega_gpus"


class CallError(Exception):
    """status: of HTTP. code: its name in google.rpc."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code, self.message = status, code, message


class Caller:
    def __init__(self, api: VertexApi, parent: str = PARENT) -> None:
        self.api, self.parent = api, parent
        self._session = requests.Session()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def call(self, method: str, path: str, body: Any = None, *, version: str = "v1", **query: str) -> Any:
        url = f"{self.api.url}/{version}/{path}"
        answer = self._session.request(method, url, json=body, params=query, timeout=30)
        said = answer.json()
        if answer.status_code != 200:
            error = said["error"]
            raise CallError(answer.status_code, error["status"], error["message"])
        return said

    def create(self, **changes: Any) -> Any:
        return self.call("POST", f"{self.parent}/customJobs", wanted(**changes))

    def get(self, name: str) -> Any:
        return self.call("GET", name)

    def state(self, name: str) -> str:
        return self.get(name)["state"].removeprefix("JOB_STATE_")

    def titles(self, **query: str) -> list[str]:
        listed = self.call("GET", f"{self.parent}/customJobs", **query)
        return [job["displayName"] for job in listed.get("customJobs", [])]

    def entries(self, text: str = "", **fields: Any) -> Any:
        """Of Cloud Logging."""
        body = {"resourceNames": ["projects/p"], "filter": text, **fields}
        return self.call("POST", "entries:list", body, version="v2").get("entries", [])

    def cancel(self, name: str) -> Any:
        return self.call("POST", f"{name}:cancel", {})

    def delete(self, name: str) -> Any:
        return self.call("DELETE", name)

    def control(self, path: str, values: Any = None, method: str = "POST") -> Any:
        answer = self._session.request(method, f"{self.api.url}/_/{path}", json=values, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def running(self, **changes: Any) -> str:
        """The name of a new job that runs."""
        name = str(self.create(**changes)["name"])
        self.api.advance(UNTIL_RUNNING_S)
        assert self.state(name) == "RUNNING"
        return name


def pool(replicas: int = 1, **changes: Any) -> dict[str, Any]:
    machine = {
        "machineType": "a3-megagpu-8g",
        "acceleratorType": "NVIDIA_H100_MEGA_80GB",
        "acceleratorCount": 8,
    } | changes.pop("machine", {})
    spec = {"machineSpec": machine, "replicaCount": str(replicas), "containerSpec": {"imageUri": "i@sha256:0"}}
    return spec | changes


def wanted(title: str = "j", pools: list[Any] | None = None, labels: Any = None, **spec: Any) -> dict[str, Any]:
    """A custom job of two machines, changed by fields of its job_spec."""
    pools = pools if pools is not None else [pool(), pool()]
    return {"displayName": title, "labels": labels or {}, "jobSpec": {"workerPoolSpecs": pools, **spec}}
