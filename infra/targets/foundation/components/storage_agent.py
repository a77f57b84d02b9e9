"""Cloud Storage's own account in a project, which encrypts what lies in buckets that have a key.

A new project has none. Google makes it when somebody asks for its name, and until then refuses every grant to it. There
is no resource that does so: `projects.ServiceIdentity` does not know storage.googleapis.com (terraform-google-modules/
terraform-google-project-factory issue 803), so the name is asked for.

It is asked by the engine's own protocol: of a failure the SDK's invoke makes a traceback of sixty lines, whatever the
program does with it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pulumi
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.settings import get_monitor
from pulumi_gcp import _utilities

_ASKED = "gcp:storage/getProjectServiceAccount:getProjectServiceAccount"


def member(project: str, project_number: pulumi.Input[int], enabled: pulumi.Output[Any]) -> Any:
    """The agent as IAM spells it. `up` asks for it; a preview, which needs no account, says how it will be called.

    enabled: there once the project's APIs are.
    """
    if pulumi.runtime.is_dry_run():
        return pulumi.Output.from_input(project_number).apply(
            lambda number: f"serviceAccount:service-{number}@gs-project-accounts.iam.gserviceaccount.com"
        )

    async def ask(_: Any) -> str:
        return await asyncio.get_running_loop().run_in_executor(None, _ask, project)

    return enabled.apply(ask)


def _ask(project: str) -> str:
    """Raises RunError with what Google's plugin says."""
    monitor: Any = get_monitor()
    request = resource_pb2.ResourceInvokeRequest(tok=_ASKED, version=_utilities.get_version())
    request.args.update({"project": project})
    try:
        answer = monitor.Invoke(request)
    except grpc.RpcError as error:
        details: Any = error
        raise pulumi.RunError(f"cannot ask for Cloud Storage's own account in {project}: {details.details()}") from None
    if answer.failures:
        reasons = "; ".join(str(failure.reason) for failure in answer.failures)
        raise pulumi.RunError(f"cannot ask for Cloud Storage's own account in {project}: {reasons}")
    return str(getattr(answer, "return")["member"])
