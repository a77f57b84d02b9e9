"""Cloud Storage's own account in a project, which encrypts what lies in buckets that have a key.

A new project has none. Google makes it when somebody asks for its name, and until then refuses every grant to it. There
is no resource that does so: `projects.ServiceIdentity` does not know storage.googleapis.com (terraform-google-modules/
terraform-google-project-factory issue 803), so the name is asked for.
"""

from __future__ import annotations

import pulumi
import pulumi_gcp as gcp


def member(project: str, project_number: pulumi.Input[int], storage_is_enabled: pulumi.Resource) -> pulumi.Output[str]:
    """The agent as IAM spells it. `up` asks for it; a preview, which needs no account, says how it will be called."""
    if pulumi.runtime.is_dry_run():
        return pulumi.Output.from_input(project_number).apply(
            lambda number: f"serviceAccount:service-{number}@gs-project-accounts.iam.gserviceaccount.com"
        )
    enabled = pulumi.InvokeOutputOptions(depends_on=[storage_is_enabled])
    return gcp.storage.get_project_service_account_output(project=project, opts=enabled).member
