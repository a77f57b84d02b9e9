"""`slipway doctor`: what a stack needs, and whether it is there: one finding per thing, with the fix.

Owns the list of things and their sentences. Refuses to change anything, and to guess: what could not be asked says why.
What this machine has needs no account; the rest is asked of Google (infra/google/google_project.py). Not run against
Google's own service.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from infra import emulated, names
from infra.artifacts.layout import wheelhouse_key
from infra.artifacts.store import LocalStore, NoBucketError, StoreError, open_store
from infra.engine import home, locks, wrapper
from infra.google import google_project, permissions
from infra.google.google_project import GoogleError, GoogleProject
from infra.host_software import derive
from infra.host_software.wheels.locks import STABLE, LockError, lock_path, read_lock
from infra.paths import ARTIFACTS, ROOT, TRAINING, UV
from infra.preview import quota
from infra.preview.purchase import Purchase
from infra.preview.quota import QuotaNeed
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import Settings, SettingsError, StackSettings
from infra.standins import choose
from infra.standins.gcp import schema
from infra.targets.foundation.settings import Egress, FoundationSettings, how_to_make
from infra.targets.tpu_vm.plan import artifacts
from infra.targets.tpu_vm.settings import TpuVmSettings

SETUP = "run: make setup"
BUCKET_PATIENCE_S = 10.0


class Verdict(StrEnum):
    OK = "ok"
    WRONG = "wrong"
    NOT_ASKED = "not asked"


@dataclass(frozen=True)
class Finding:
    """`said` is one sentence; of what is wrong it has the fix, of what was not asked the reason."""

    what: str
    verdict: Verdict
    said: str


def _ok(what: str, said: str) -> Finding:
    return Finding(what, Verdict.OK, said)


def _wrong(what: str, said: str) -> Finding:
    return Finding(what, Verdict.WRONG, said)


def _not_asked(what: str, why: str) -> Finding:
    return Finding(what, Verdict.NOT_ASKED, why)


def findings(stack: str | None) -> Iterator[Finding]:
    """As they are found; of one stack, or of what every stack needs. Raises nothing of what it looks for."""
    settings, read = _stack_files(stack)
    yield from _emulated(settings)
    yield read
    yield from (_engine(), _uv(), _environment(), *_locks(settings), _plugin(settings))
    if isinstance(settings, Settings):
        yield _wheelhouse(settings)
    yield _stack_lock(stack)
    if isinstance(settings, TpuVmSettings | FoundationSettings):
        yield from _of_google(settings)
    elif stack is None:
        yield _anybody()


# --- this machine ---


def _stack_files(stack: str | None) -> tuple[StackSettings | None, Finding]:
    if stack is not None:
        try:
            settings = stack_settings.any_from_file(stack)
        except SettingsError as error:
            return None, _wrong("stack file", str(error))
        return settings, _ok("stack file", f"stacks/Pulumi.{stack}.yaml is a stack of target {settings.target}")
    problems: list[str] = []
    every = stack_settings.stack_names()
    for name in every:
        try:
            stack_settings.any_from_file(name)
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        return None, _wrong("stack files", "; ".join(problems))
    return None, _ok("stack files", f"all {len(every)} can be used; of one: slipway doctor STACK")


def _emulated(settings: StackSettings | None) -> Iterator[Finding]:
    """What is not asked of Google although it looks like it; first, for it is about all that follows."""
    for sentence in emulated.sentences(os.environ, str(settings.target) if settings else ""):
        yield _not_asked("emulated", sentence)


def _engine() -> Finding:
    try:
        directory = wrapper.engine_directory(ROOT)
    except wrapper.RefusalError as error:
        return _wrong("engine", str(error))
    done = _run(directory / "pulumi", "version")
    if done.returncode:
        return _wrong("engine", f"{directory / 'pulumi'} does not start ({_first_line(done)}); {SETUP}")
    return _ok("engine", f"pulumi {done.stdout.strip()}")


def _uv() -> Finding:
    if not os.access(UV, os.X_OK):
        return _wrong("uv", f"there is none in .venv/bin; {SETUP}")
    done = _run(UV, "--version")
    return (
        _wrong("uv", f"it does not start ({_first_line(done)}); {SETUP}")
        if done.returncode
        else _ok("uv", done.stdout.strip())
    )


def _environment() -> Finding:
    """Whether .venv has what uv.lock says."""
    if not os.access(UV, os.X_OK):
        return _not_asked("environment", "there is no uv to ask")
    checked = _run(UV, "sync", "--check", "--frozen", "--offline", "--inexact", "--no-install-project")
    return (
        _wrong("environment", f".venv differs from uv.lock; {SETUP}")
        if checked.returncode
        else _ok("environment", ".venv has what uv.lock says")
    )


def _locks(settings: StackSettings | None) -> Iterator[Finding]:
    """The operator's lock and the hosts': present, and made of what is asked for today."""
    if not os.access(UV, os.X_OK):
        yield _not_asked("locks", "there is no uv to ask")
        return
    stale = [
        f"{project}uv.lock is older than {project}pyproject.toml"
        for project, folder in (("", ROOT), ("training/", TRAINING))
        if _run(UV, "lock", "--check", "--offline", "--project", str(folder)).returncode
    ]
    platform = settings.row.platform if isinstance(settings, Settings) else "cpu"
    channel = settings.channel if isinstance(settings, Settings) else STABLE
    lock = lock_path(platform, channel)
    try:
        read_lock(lock)
    except LockError as error:
        yield _wrong("locks", str(error))
        return
    if channel == STABLE and not _is_export(platform, lock):
        stale.append(f"training/locks/{lock.name} is not what training/uv.lock says")
    if stale:
        yield _wrong("locks", f"{'; '.join(stale)}; run: make lock")
    else:
        yield _ok("locks", f"uv.lock, training/uv.lock and {lock.name} are current")


def _is_export(platform: str, lock: Path) -> bool:
    arguments = "export --quiet --frozen --no-dev --no-emit-project --no-header --format pylock.toml --extra"
    exported = _run(UV, *arguments.split(), platform, "--project", str(TRAINING))
    if exported.returncode:
        return False
    return tomllib.loads(exported.stdout)["packages"] == tomllib.loads(lock.read_text())["packages"]


def _plugin(settings: StackSettings | None) -> Finding:
    ours = ROOT / "infra" / "providers" / "pulumi-resource-slipway"
    if not os.access(ours, os.X_OK):
        return _wrong("plugin", f"{ours.relative_to(ROOT)} cannot be executed; run: chmod +x {ours.relative_to(ROOT)}")
    version = schema.version()
    choice = choose.google_plugin(os.environ, version)
    others = "".join(f"; {sentence}" for sentence in choice.passed_over)
    install = f".venv/bin/pulumi plugin install resource gcp {version}"
    if isinstance(settings, FoundationSettings):
        if choice.official:
            return _ok("plugin", f"Google's, {choice.official}{others}")
        return _wrong("plugin", f"Google's is not installed, and its stand-in only previews; run: {install}{others}")
    if choice.official or settings:
        return _ok("plugin", "ours" + (f", and Google's, {choice.official}" if choice.official else "") + others)
    return _ok("plugin", f"ours; Google's is not installed, which `up` of a foundation needs: {install}{others}")


def _wheelhouse(settings: Settings) -> Finding:
    """Whether what hosts install is built; a python_archive and an overlay are read on the way."""
    try:
        wheels = derive.wheelhouse(settings, settings.row.platform)
    except SettingsError as error:
        return _wrong("wheelhouse", str(error))
    with_python = f", with {settings.python_archive}" if settings.python_archive else ""
    if LocalStore(ARTIFACTS).has(wheelhouse_key(wheels.id)):
        return _ok("wheelhouse", f"{wheels.id} ({wheels.platform}, {wheels.channel}{with_python}) is built here")
    return _ok(
        "wheelhouse", f"{wheels.id} ({wheels.platform}, {wheels.channel}{with_python}) is not built yet: `up` does"
    )


def _stack_lock(stack: str | None) -> Finding:
    """Locks of the engine on stacks, where the state is in this clone."""
    project = wrapper.read_text(ROOT / "Pulumi.yaml")
    if wrapper.user_chose_backend(os.environ, wrapper.read_text(home.credentials_path(os.environ)), project):
        return _not_asked("stack lock", "the state is in a backend of your own, whose locks `pulumi cancel` removes")
    hostname, held = os.uname().nodename, list[str]()
    for lock in locks.read_locks(wrapper.state_directory(ROOT), wrapper.project_name(project), stack):
        process = None if lock.pid is None else locks.find_process(lock.pid)
        if locks.holder_is_gone(lock, hostname, process):
            cancel = f".venv/bin/pulumi cancel --yes --stack {lock.stack}"
            return _wrong(
                "stack lock", f"a killed pulumi (pid {lock.pid}) left stack '{lock.stack}' locked; run: {cancel}"
            )
        if process is None:
            return _wrong("stack lock", locks.explain(lock))
        held.append(f"'{lock.stack}' is in use by pid {lock.pid}")
    return _ok("stack lock", "; ".join(held) or "none is left")


def _run(command: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def _first_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[0]


# --- Google ---

_TRAINING_SERVICES = ("compute", "storage", "tpu")
_QUOTA_SERVICE = "tpu"


def _anybody() -> Finding:
    """Without a stack there is nothing that needs credentials."""
    if choose.has_credentials(os.environ):
        return _ok("credentials", "there are some; whether they do: slipway doctor STACK")
    return _ok(
        "credentials", f"there are none, and previews and target local need none; for a cloud {google_project.LOGIN}"
    )


def _of_google(settings: TpuVmSettings | FoundationSettings) -> Iterator[Finding]:
    questions = _questions(settings)
    try:
        account = google_project.account()
    except GoogleError as error:
        yield _wrong("credentials", str(error))
        yield from (_not_asked(what, "no credentials") for what in questions)
        return
    yield _ok("credentials", account.name or "a token was given")
    placeholder = names.placeholder_problem(settings.project, settings.stack)
    if placeholder:
        yield _wrong("project", placeholder)
        yield from (_not_asked(what, "no project") for what in questions if what != "project")
        return
    project = GoogleProject(settings.project, account)
    for what, ask in questions.items():
        try:
            yield ask(project)
        except GoogleError as error:
            yield _wrong(what, str(error)) if what == "project" and error.status else _not_asked(what, str(error))


def _questions(settings: TpuVmSettings | FoundationSettings) -> dict[str, Callable[[GoogleProject], Finding]]:
    asked: dict[str, Callable[[GoogleProject], Finding]] = {
        "project": _project,
        "APIs": lambda project: _services(project, settings),
        "roles": lambda project: _roles(project, settings),
    }
    if isinstance(settings, FoundationSettings) and settings.budget_billing_account:
        account = settings.budget_billing_account
        asked["budget"] = lambda project: _billing_account(project, account)
    if isinstance(settings, TpuVmSettings):
        asked["quota"] = lambda project: _quota(project, quota.of_purchase(Purchase.of(settings)))
        asked["foundation"] = lambda _: _foundation(settings)
        asked |= {key: _bucket_question(settings, key, bucket) for key, bucket in settings.buckets_named.items()}
    return asked


def _project(project: GoogleProject) -> Finding:
    state = project.state()
    if state != "ACTIVE":
        return _wrong("project", f"{project.project} is {state}; run: gcloud projects undelete {project.project}")
    return _ok("project", f"{project.project} is active")


def _services(project: GoogleProject, settings: TpuVmSettings | FoundationSettings) -> Finding:
    needed = settings.services if isinstance(settings, FoundationSettings) else _TRAINING_SERVICES
    missing = sorted(set(needed) - project.enabled_services())
    if not missing:
        return _ok("APIs", f"all {len(needed)} that it needs are enabled")
    if isinstance(settings, FoundationSettings) and "serviceusage" not in missing:
        return _ok("APIs", f"`up` enables {', '.join(missing)}")
    full = " ".join(f"{name}.googleapis.com" for name in missing)
    return _wrong(
        "APIs", f"not enabled: {', '.join(missing)}; run: gcloud services enable {full} --project {project.project}"
    )


def _roles(project: GoogleProject, settings: TpuVmSettings | FoundationSettings) -> Finding:
    needed = dict(permissions.TRAINING)
    if isinstance(settings, FoundationSettings):
        needed = dict(permissions.FOUNDATION)
        if settings.budget_usd:
            needed |= permissions.BUDGET
        if settings.egress is Egress.NAT:
            needed |= permissions.NAT
    granted = project.granted(tuple(needed))
    missing = [name for name in needed if name not in granted]
    if not missing:
        return _ok("roles", f"all {len(needed)} permissions that were asked for are there")
    roles = " and ".join(dict.fromkeys(needed[name] for name in missing))
    return _wrong(
        "roles", f"no permission for {', '.join(missing)}; have an owner of {project.project} give you {roles}"
    )


def _billing_account(project: GoogleProject, account: str) -> Finding:
    granted = project.granted_on_billing_account(account, tuple(permissions.BILLING_ACCOUNT))
    missing = [name for name in permissions.BILLING_ACCOUNT if name not in granted]
    if not missing:
        return _ok("budget", f"billing account {account} lets you make one")
    roles = " and ".join(dict.fromkeys(permissions.BILLING_ACCOUNT[name] for name in missing))
    return _wrong(
        "budget",
        f"no permission for {', '.join(missing)} on billing account {account}; have one of its administrators give you "
        f"{roles} there, or leave budget_usd out",
    )


def _quota(project: GoogleProject, need: QuotaNeed) -> Finding:
    """Enough in one of the zones is enough: they are tried in turn. What is in use already is not told."""
    if need.name is None:
        return _not_asked("quota", f"no source says which quota holds these {need.amount:,} {need.unit}")
    has = {place: project.quota(_QUOTA_SERVICE, need.name, place) for place in need.places}
    told = {place: amount for place, amount in has.items() if amount is not None}
    if not told:
        return _not_asked("quota", f"{need.name} has no value for {' or '.join(need.places)}")
    said = ", ".join(f"{'unlimited' if amount < 0 else f'{amount:,}'} in {place}" for place, amount in told.items())
    if any(amount < 0 or amount >= need.amount for amount in told.values()):
        return _ok("quota", f"{need.name}: {said}, needs {need.amount:,} {need.unit}; what is in use is not told")
    page = f"https://console.cloud.google.com/iam-admin/quotas?project={project.project}"
    return _wrong("quota", f"{need.name}: {said}, but {need.amount:,} {need.unit} are needed; ask for more at {page}")


def _foundation(settings: TpuVmSettings) -> Finding:
    store = artifacts(settings)
    try:
        open_store(store, BUCKET_PATIENCE_S).has("wheelhouses/any")
    except NoBucketError:
        return _wrong(
            "foundation", f"there is no {store}; {how_to_make(settings.project, settings.place, settings.prefix)}"
        )
    except StoreError as error:
        return _not_asked("foundation", str(error))
    return _ok("foundation", f"{store} is there")


def _bucket_question(settings: TpuVmSettings, key: str, bucket: str) -> Callable[[GoogleProject], Finding]:
    def ask(project: GoogleProject) -> Finding:
        location = project.bucket_location(bucket)
        problem = names.bucket_problem(key, bucket, location, settings.place)
        return _wrong(key, problem) if problem else _ok(key, f"gs://{bucket} is in {location.lower()}")

    return ask
