"""google-cloud-aiplatform, which this project does not install: what it describes, and what it sends of custom jobs.

    uv run --no-project --with google-cloud-aiplatform==2.7.0 python tests/gcloud/aiplatform_client.py describe
    PYTHONPATH=. python tests/gcloud/aiplatform_client.py record PYTHON

The first prints infra/emulators/vertex_jobs/custom_jobs.json. The second runs the third verb, `ask URL`, in a Python
that has the client, against the emulated Vertex AI, and writes what it sent into tests/golden/.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORDING = "aiplatform/custom-jobs.json"  # in tests/golden/
_PACKAGE = "google.cloud.aiplatform.v1"
_REQUESTS = ("Create", "Get", "List", "Delete", "Cancel")


def describe() -> str:
    """The client's descriptors of CustomJob and of all that its calls have, as one file of a descriptor pool."""
    types: Any = importlib.import_module("google.cloud.aiplatform_v1.types")
    descriptors: Any = importlib.import_module("google.protobuf.descriptor_pb2")
    json_format: Any = importlib.import_module("google.protobuf.json_format")
    calls = [f"{verb}CustomJob{'s' if verb == 'List' else ''}Request" for verb in _REQUESTS]
    kinds = ["CustomJob", *calls, "ListCustomJobsResponse", "DeleteOperationMetadata"]
    messages, enums, files = _reached([getattr(types, kind).pb().DESCRIPTOR for kind in kinds])
    made = descriptors.FileDescriptorProto(
        name="slipway/custom_jobs.proto", package=_PACKAGE, syntax="proto3", dependency=sorted(files)
    )
    for name in sorted(messages):
        messages[name].CopyToProto(made.message_type.add())
    for name in sorted(enums):
        enums[name].CopyToProto(made.enum_type.add())
    for message in made.message_type:
        _strip(message)
    text = json.dumps(json_format.MessageToDict(made), indent=1)
    one_line = re.compile(r"\{\n\s+(\"(?:name|number)\"[^{}\[\]]*?)\n\s+\}")
    return one_line.sub(lambda found: "{" + re.sub(r"\s*\n\s+", " ", found[1]) + "}", text)


def _reached(roots: list[Any]) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    """Messages and enums of the client's package by name, and the files of what is of others."""
    messages, enums, files = dict[str, Any](), dict[str, Any](), set[str]()
    rest = list(roots)
    while rest:
        kind = rest.pop()
        while kind.containing_type:
            kind = kind.containing_type
        if not kind.full_name.startswith(_PACKAGE):
            files.add(kind.file.name)
        elif kind.full_name not in messages:
            messages[kind.full_name] = kind
            for each in (kind, *kind.nested_types):
                rest += [field.message_type for field in each.fields if field.message_type]
                of_fields = [field.enum_type for field in each.fields if field.enum_type]
                enums |= {enum.full_name: enum for enum in of_fields if not enum.containing_type}
    return messages, enums, files


def _strip(message: Any) -> None:
    """Of names that follow from others."""
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _strip(nested)


def ask(url: str) -> None:
    """Every call of custom jobs, as a program of somebody else's would make it."""
    client_types: Any = importlib.import_module("google.cloud.aiplatform_v1")
    credentials: Any = importlib.import_module("google.oauth2.credentials")
    errors: Any = importlib.import_module("google.api_core.exceptions")
    client = client_types.JobServiceClient(
        transport="rest", credentials=credentials.Credentials("x"), client_options={"api_endpoint": url}
    )
    parent = "projects/slipway-demo/locations/us-central1"
    made = client.create_custom_job(parent=parent, custom_job=_job(parent, "a", {"timeout": {"seconds": 3600}}))
    waits = {"strategy": "FLEX_START", "max_wait_duration": {"seconds": 7200}}
    client.create_custom_job(parent=parent, custom_job=_job(parent, "b", waits))
    assert len(list(client.list_custom_jobs(request={"parent": parent, "page_size": 1}))) == 2
    masked = {"parent": parent, "filter": 'labels.run=a AND state!="JOB_STATE_FAILED"', "read_mask": "name,state"}
    assert [job.display_name for job in client.list_custom_jobs(request=masked)] == [""]
    _refused(errors.BadRequest, lambda: client.delete_custom_job(name=made.name))
    client.cancel_custom_job(name=made.name)
    assert client.get_custom_job(name=made.name).error.code == 1
    client.delete_custom_job(name=made.name).result()
    _refused(errors.NotFound, lambda: client.get_custom_job(name=made.name))


def _refused(kind: type[Exception], act: Any) -> None:
    try:
        act()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def _job(parent: str, title: str, scheduling: dict[str, Any]) -> dict[str, Any]:
    machine = {"machine_type": "a3-megagpu-8g", "accelerator_type": "NVIDIA_H100_MEGA_80GB", "accelerator_count": 8}
    container = {
        "image_uri": "i@sha256:0",
        "command": ["bash", "-c"],
        "args": ["x"],
        "env": [{"name": "A", "value": "b"}],
    }
    disk = {"boot_disk_type": "pd-ssd", "boot_disk_size_gb": 1000}
    pool = {"machine_spec": machine, "container_spec": container, "disk_spec": disk}
    spec = {
        "worker_pool_specs": [pool | {"replica_count": 1}, pool | {"replica_count": 3}],
        "scheduling": scheduling | {"restart_job_on_worker_restart": True},
        "service_account": "a@slipway-demo.iam.gserviceaccount.com",
        "network": "projects/1/global/networks/n",
        "base_output_directory": {"output_uri_prefix": "gs://b/p"},
        "tensorboard": f"{parent}/tensorboards/1",
        "enable_web_access": True,
    }
    return {"display_name": title, "labels": {"run": title}, "job_spec": spec}


def record(python: str) -> None:
    custom_jobs: Any = importlib.import_module("tests.gcloud.custom_jobs")
    golden: Any = importlib.import_module("tests.golden_files")
    with custom_jobs.emulator() as api:
        subprocess.run([python, __file__, "ask", api.url], check=True)
        calls = [
            {"method": call.method, "target": call.target, "body": call.body, "status": call.status}
            for call in api.calls
        ]
    file: Path = golden.GOLDEN / RECORDING
    file.parent.mkdir(exist_ok=True)
    file.write_text(
        json.dumps([{"command": "google-cloud-aiplatform", "calls": calls}], indent=1, sort_keys=True) + "\n"
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["describe"]:
            print(describe())
        case ["record", python]:
            record(python)
        case ["ask", url]:
            ask(url)
        case _:
            raise SystemExit(__doc__)
