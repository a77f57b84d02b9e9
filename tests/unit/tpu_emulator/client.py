"""Google's client over real HTTP, with the calls of these tests in one line each, and the place they are made in."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import requests
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import tpu_v2
from google.protobuf import field_mask_pb2

from infra.emulators.tpu_api import Timings, TpuApi

ZONE = "us-east5-b"
PARENT = f"projects/p/locations/{ZONE}"
PROJECT_NUMBER = "345434927424"  # of the project `p`, made up by the emulator and always the same
START_S = 1_800_000_000.0
TIMINGS = Timings(admit_s=2, select_s=5, provision_s=60, boot_s=90, host_stagger_s=1, suspend_s=30, delete_s=20)
UNTIL_ACTIVE_S = 2 + 5 + 60
UNTIL_READY_S = UNTIL_ACTIVE_S + 90 + 7


class Client:
    """Google's client with the calls of these tests in one line each, without retries."""

    def __init__(self, url: str, parent: str = PARENT) -> None:
        options = {"api_endpoint": url}
        self.google = tpu_v2.TpuClient(credentials=AnonymousCredentials(), transport="rest", client_options=options)
        self.parent = parent

    def request(self, name: str = "q") -> str:
        return f"{self.parent}/queuedResources/{name}"

    def node_name(self, name: str = "q") -> str:
        return f"{self.parent}/nodes/{name}"

    def create(self, name: str = "q", request_id: str = "", timeout: float = 10, **changes: Any) -> Any:
        return self.google.create_queued_resource(
            request=tpu_v2.CreateQueuedResourceRequest(
                parent=self.parent,
                queued_resource_id=name,
                queued_resource=wanted(name, self.parent, **changes),
                request_id=request_id,
            ),
            retry=None,
            timeout=timeout,
        )

    def get(self, name: str = "q") -> Any:
        return self.google.get_queued_resource(name=self.request(name), retry=None, timeout=900)

    def state(self, name: str = "q") -> str:
        return self.get(name).state.state.name

    def node(self, name: str = "q") -> Any:
        return self.google.get_node(name=self.node_name(name), retry=None, timeout=900)

    def nodes(self) -> dict[str, str]:
        found = self.google.list_nodes(parent=self.parent, retry=None, timeout=900)
        return {node.name.rpartition("/")[2]: node.state.name for node in found}

    def requests(self) -> list[str]:
        found = self.google.list_queued_resources(parent=self.parent, retry=None, timeout=900)
        return [one.name.rpartition("/")[2] for one in found]

    def delete(self, name: str = "q", force: bool = True, request_id: str = "") -> Any:
        return self.google.delete_queued_resource(
            request=tpu_v2.DeleteQueuedResourceRequest(name=self.request(name), force=force, request_id=request_id),
            retry=None,
            timeout=900,
        )

    def ready(self, name: str = "q", path: str = "slipway/status") -> list[str]:
        """What each host has published."""
        found = self.google.get_guest_attributes(
            request={"name": self.node_name(name), "query_path": path}, retry=None, timeout=900
        )
        return ["".join(item.value for item in host.query_value.items) for host in found.guest_attributes]

    def patch(self, node: Any, paths: list[str]) -> Any:
        mask = field_mask_pb2.FieldMask(paths=paths)
        return self.google.update_node(node=node, update_mask=mask, retry=None, timeout=900)

    def error_of(self, operation: Any) -> tuple[int, str]:
        """google.rpc's code and the sentence that an operation ended in."""
        error = self.operation(operation).error
        return error.code, error.message

    def operation(self, operation: Any) -> Any:
        return self.google.get_operation({"name": operation.operation.name}, retry=None, timeout=900)


def wanted(name: str = "q", parent: str = PARENT, **changes: Any) -> Any:
    """A queued resource: one v6e-32, changed by node fields, `slices` and fields of the request."""
    of_request = {key: changes.pop(key) for key in list(changes) if key in tpu_v2.QueuedResource.meta.fields}
    slices = changes.pop("slices", 1)
    node = {"accelerator_type": "v6e-32", "runtime_version": "v2-alpha-tpuv6e", **changes}
    naming = {"node_id": name} if slices == 1 else {"multislice_params": {"node_count": slices}}
    return tpu_v2.QueuedResource({"tpu": {"node_spec": [{"parent": parent, "node": node, **naming}]}, **of_request})


def reason(error: exceptions.GoogleAPICallError) -> str:
    return str(error.reason)


def control(api: TpuApi, path: str, values: Any = None, method: str = "POST") -> Any:
    answer = requests.request(method, f"{api.url}/_/{path}", json=values, timeout=900)
    assert answer.status_code == 200, answer.text
    return answer.json()
