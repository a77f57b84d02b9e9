"""What a stack needs of Google: credentials, project, APIs, roles.

Asks what every target in the cloud has in common; what one needs beyond that the target says
(infra/targets/contract.py, `needs`). Refuses to own the calls (infra/google_cloud/google_project.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from infra import names
from infra.engine import google_plugin
from infra.google_cloud import google_project
from infra.google_cloud.google_project import GoogleError, GoogleProject
from infra.stack_file.cloud_settings import CloudSettings
from infra.targets import registry
from infra.targets.needs import Finding, Needs, Question, not_asked, ok, wrong


def anybody() -> Finding:
    """Without a stack there is nothing that needs credentials."""
    if google_plugin.has_credentials(os.environ):
        return ok("credentials", "there are some; to test them: slipway doctor STACK")
    return ok(
        "credentials",
        f"there are none, and previews and target local need none; for a cloud {google_project.LOGIN}",
    )


def of_google(settings: CloudSettings) -> Iterator[Finding]:
    questions = _questions(settings)
    try:
        account = google_project.account()
    except GoogleError as error:
        yield wrong("credentials", str(error))
        yield from (not_asked(what, "no credentials") for what in questions)
        return
    yield ok("credentials", account.name or "a token was given")
    placeholder = names.placeholder_problem(settings.project, settings.stack)
    if placeholder:
        yield wrong("project", placeholder)
        yield from (not_asked(what, "no project") for what in questions if what != "project")
        return
    project = GoogleProject(settings.project, account)
    for what, ask in questions.items():
        try:
            yield ask(project)
        except GoogleError as error:
            yield wrong(what, str(error)) if what == "project" and error.status else not_asked(what, str(error))


def _questions(settings: CloudSettings) -> dict[str, Question]:
    needs = registry.of(settings.target).needs(settings)
    if needs is None:
        return {}
    return {
        "project": _project,
        "APIs": lambda project: _services(project, needs),
        "roles": lambda project: _roles(project, needs),
        **needs.more,
    }


def _project(project: GoogleProject) -> Finding:
    state = project.state()
    if state != "ACTIVE":
        return wrong("project", f"{project.project} is {state}; run: gcloud projects undelete {project.project}")
    return ok("project", f"{project.project} is active")


def _services(project: GoogleProject, needs: Needs) -> Finding:
    missing = sorted(set(needs.services) - project.enabled_services())
    if not missing:
        return ok("APIs", f"all {len(needs.services)} that it needs are enabled")
    if needs.enables_services and "serviceusage" not in missing:
        return ok("APIs", f"`up` enables {', '.join(missing)}")
    full = " ".join(f"{name}.googleapis.com" for name in missing)
    return wrong(
        "APIs", f"not enabled: {', '.join(missing)}; run: gcloud services enable {full} --project {project.project}"
    )


def _roles(project: GoogleProject, needs: Needs) -> Finding:
    granted = project.granted(tuple(needs.permissions))
    missing = [name for name in needs.permissions if name not in granted]
    if not missing:
        return ok("roles", f"all {len(needs.permissions)} permissions that were asked for are there")
    roles = " and ".join(dict.fromkeys(needs.permissions[name] for name in missing))
    return wrong(
        "roles", f"no permission for {', '.join(missing)}; have an owner of {project.project} give you {roles}"
    )
