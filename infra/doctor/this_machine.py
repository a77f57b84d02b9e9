"""What a stack needs of this machine: engine, tools, environment, locks, plugin, wheelhouse. Needs no account."""

from __future__ import annotations

import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from infra import emulated
from infra.artifacts.layout import wheelhouse_key
from infra.artifacts.store import LocalStore
from infra.engine import google_plugin, kubernetes_plugin, locks, wrapper
from infra.host_software import derive
from infra.host_software.wheels.locks import STABLE, LockError, lock_path, read_lock
from infra.paths import ARTIFACTS, ROOT, TRAINING, UV
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import Settings, SettingsError, StackSettings
from infra.standins.gcp import schema
from infra.targets import registry
from infra.targets.needs import Finding, not_asked, ok, wrong

SETUP = "run: make setup"


def stack_files_findings(stack: str | None) -> tuple[StackSettings | None, Finding]:
    if stack is not None:
        try:
            settings = stack_settings.any_from_file(stack)
        except SettingsError as error:
            return None, wrong("stack file", str(error))
        return settings, ok("stack file", f"stacks/Pulumi.{stack}.yaml is a stack of target {settings.target}")
    problems: list[str] = []
    every = stack_settings.stack_names()
    for name in every:
        try:
            stack_settings.any_from_file(name)
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        return None, wrong("stack files", "; ".join(problems))
    return None, ok("stack files", f"all {len(every)} can be used; of one: slipway doctor STACK")


def emulated_findings(settings: StackSettings | None) -> Iterator[Finding]:
    """Name every service that stands in for Google. These come first, since they change what the others mean."""
    asks = registry.of(settings.target).asks if settings else None
    for sentence in emulated.sentences(os.environ, asks):
        yield not_asked("emulated", sentence)


def engine_finding() -> Finding:
    try:
        directory = wrapper.engine_directory(ROOT)
    except wrapper.RefusalError as error:
        return wrong("engine", str(error))
    done = _run(directory / "pulumi", "version")
    if done.returncode:
        return wrong("engine", f"{directory / 'pulumi'} does not start ({_first_line(done)}); {SETUP}")
    return ok("engine", f"pulumi {done.stdout.strip()}")


def uv_finding() -> Finding:
    if not os.access(UV, os.X_OK):
        return wrong("uv", f"there is none in .venv/bin; {SETUP}")
    done = _run(UV, "--version")
    if done.returncode:
        return wrong("uv", f"it does not start ({_first_line(done)}); {SETUP}")
    return ok("uv", done.stdout.strip())


def environment_finding() -> Finding:
    """Whether .venv has what uv.lock says."""
    if not os.access(UV, os.X_OK):
        return not_asked("environment", "there is no uv to ask")
    if _run(UV, "sync", "--check", "--frozen", "--offline", "--inexact", "--no-install-project").returncode:
        return wrong("environment", f".venv differs from uv.lock; {SETUP}")
    return ok("environment", ".venv has what uv.lock says")


def locks_findings(settings: StackSettings | None) -> Iterator[Finding]:
    """The operator's lock and the hosts': present, and made of what is asked for today."""
    if not os.access(UV, os.X_OK):
        yield not_asked("locks", "there is no uv to ask")
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
        yield wrong("locks", str(error))
        return
    if channel == STABLE and not _is_export(platform, lock):
        stale.append(f"training/locks/{lock.name} is not what training/uv.lock says")
    if stale:
        yield wrong("locks", f"{'; '.join(stale)}; run: make lock")
    else:
        yield ok("locks", f"uv.lock, training/uv.lock and {lock.name} are current")


def _is_export(platform: str, lock: Path) -> bool:
    arguments = "export --quiet --frozen --no-dev --no-emit-project --no-header --format pylock.toml --extra"
    exported = _run(UV, *arguments.split(), platform, "--project", str(TRAINING))
    if exported.returncode:
        return False
    return tomllib.loads(exported.stdout)["packages"] == tomllib.loads(lock.read_text())["packages"]


def plugin_finding(settings: StackSettings | None) -> Finding:
    ours = ROOT / "infra" / "providers" / "pulumi-resource-slipway"
    if not os.access(ours, os.X_OK):
        return wrong("plugin", f"{ours.relative_to(ROOT)} cannot be executed; run: chmod +x {ours.relative_to(ROOT)}")
    version = schema.version()
    choice = google_plugin.choose(os.environ, version)
    others = "".join(f"; {sentence}" for sentence in choice.passed_over)
    install = f".venv/bin/pulumi plugin install resource gcp {version}"
    if settings and google_plugin.NAME in registry.of(settings.target).plugins:
        if choice.official:
            return ok("plugin", f"Google's, {choice.official}{others}")
        return wrong("plugin", f"Google's is not installed, and its stand-in only previews; run: {install}{others}")
    if choice.official or settings:
        return ok("plugin", "ours" + (f", and Google's, {choice.official}" if choice.official else "") + others)
    return ok("plugin", f"ours; Google's is not installed, which `up` of a foundation needs: {install}{others}")


def kubernetes_plugin_findings(settings: StackSettings | None) -> Iterator[Finding]:
    """Only of a stack that declares something in Kubernetes. Its stand-in applies too, so nothing has to be done."""
    if settings is None or kubernetes_plugin.NAME not in registry.of(settings.target).plugins:
        return
    choice = kubernetes_plugin.choose(os.environ)
    others = "".join(f"; {sentence}" for sentence in choice.passed_over)
    missing = f"Pulumi's is not installed, and its stand-in applies; to have it: .venv/bin/{kubernetes_plugin.INSTALL}"
    yield ok("plugin of Kubernetes", (f"Pulumi's, {choice.official}" if choice.official else missing) + others)


def wheelhouse_finding(settings: Settings) -> Finding:
    """Whether what hosts install is built; a python_archive and an overlay are read on the way."""
    try:
        wheels = derive.wheelhouse(settings, settings.row.platform)
    except SettingsError as error:
        return wrong("wheelhouse", str(error))
    with_python = f", with {wheels.python}" if wheels.python else ""
    built = LocalStore(ARTIFACTS).has(wheelhouse_key(wheels.id))
    verdict = "built here" if built else "not built yet: `up` does"
    return ok("wheelhouse", f"{wheels.id} ({wheels.platform}, {wheels.channel}{with_python}) is {verdict}")


def stack_lock_finding(stack: str | None) -> Finding:
    """Locks of the engine on stacks, where the state is in this clone."""
    if wrapper.user_chose_backend(os.environ, ROOT):
        return not_asked("stack lock", "the state is in a backend of your own, whose locks `pulumi cancel` removes")
    hostname, held = os.uname().nodename, list[str]()
    for lock in locks.read_locks(wrapper.state_directory(ROOT), wrapper.project_name(ROOT), stack):
        process = None if lock.pid is None else locks.find_process(lock.pid)
        if locks.holder_is_gone(lock, hostname, process):
            cancel = f".venv/bin/pulumi cancel --yes --stack {lock.stack}"
            return wrong(
                "stack lock", f"a killed pulumi (pid {lock.pid}) left stack '{lock.stack}' locked; run: {cancel}"
            )
        if process is None:
            return wrong("stack lock", locks.explain(lock))
        held.append(f"'{lock.stack}' is in use by pid {lock.pid}")
    return ok("stack lock", "; ".join(held) or "none is left")


def _run(command: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)


def _first_line(done: subprocess.CompletedProcess[str]) -> str:
    return (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[0]
