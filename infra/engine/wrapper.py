"""The `pulumi` of this project: gives the engine that setup got a state, a passphrase and a stack, and becomes it.

Owns: which engine runs, the state in .slipway/state where the user has chosen no backend, creating a stack's state on
first use, when locks of killed engines go, and saying what takes the place of Google. Refuses to own: anything the
engine does itself; every argument reaches it unchanged. Runs at every command, so it and what it imports take the
standard library only.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from infra import emulated
from infra.engine import google_endpoints, google_plugin, kubernetes_plugin
from infra.engine.command_line import BACKEND_COMMANDS, PREVIEWS, Command, local_name, parse
from infra.engine.home import credentials_path, selected_stack
from infra.engine.locks import explain, find_process, holder_is_gone, read_locks
from infra.engine.proxy import without_proxy_on_loopback
from infra.paths import ROOT, TOOLS
from infra.standins.gcp import schema
from infra.targets import registry

STACKS = "stacks"  # stackConfigDir of Pulumi.yaml

REFUSED = 255


class RefusalError(Exception):
    """Why the engine is not started, in one sentence."""


# --- which backend, and what the engine finds in its environment ---


def user_chose_backend(environment: Mapping[str, str], root: Path) -> bool:
    """Whether the state is no longer in this clone."""
    credentials, project = read_text(credentials_path(environment)), read_text(root / "Pulumi.yaml")
    if environment.get("PULUMI_BACKEND_URL") or re.search(r"^backend:", project, re.MULTILINE):
        return True
    try:
        return bool(json.loads(credentials or "{}").get("current"))
    except (ValueError, AttributeError):
        return True  # a broken file is the engine's to explain


def state_directory(root: Path) -> Path:
    return root / ".slipway" / "state"


def state_url(root: Path) -> str:
    return "file://" + quote(str(state_directory(root)))


def engine_environment(
    environment: Mapping[str, str], root: Path, engine: Path, backend_url: str | None
) -> dict[str, str]:
    """The project's Python comes first on PATH (a built language host looks nowhere else), then the engine."""
    result = without_proxy_on_loopback(environment)
    venv = root / ".venv"
    first = [str(venv / "bin"), str(engine)]
    others = [part for part in environment.get("PATH", os.defpath).split(os.pathsep) if part not in first]
    result["PATH"] = os.pathsep.join([*first, *others])
    result["VIRTUAL_ENV"] = str(venv)
    result["PULUMI_SKIP_UPDATE_CHECK"] = "true"
    result["PYDANTIC_DISABLE_PLUGINS"] = "true"  # else it reads the metadata of every installed package
    result.setdefault("GOGC", "800")  # of a short command Go would else spend a tenth on garbage; memory stays the same
    result.setdefault("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
    if "PULUMI_CONFIG_PASSPHRASE_FILE" not in result:
        # stack files carry a salt for the empty passphrase; without any passphrase even a preview fails
        result.setdefault("PULUMI_CONFIG_PASSPHRASE", "")
    if backend_url is not None:
        result["PULUMI_BACKEND_URL"] = backend_url
    return result


# --- stacks ---


def stack_states(state: Path, project: str, stack: str) -> list[Path]:
    """The files with a stack's state; for `*` those with the state of any stack."""
    folder = state / ".pulumi" / "stacks" / project
    return [path for ending in (".json", ".json.gz") for path in folder.glob(f"{stack}{ending}")]


def missing_stack(stack: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(stack, known, n=3, cutoff=0.4) or sorted(known)[:5]
    return (
        f"no stack {stack!r}: there is no {STACKS}/Pulumi.{stack}.yaml; nearest: {', '.join(near) or 'none'}."
        f" Name one of those, or add the file (README.md, Stacks)."
    )


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError as error:
        raise RefusalError(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}; save it as UTF-8"
        ) from None


def project_name(root: Path) -> str:
    """As Pulumi.yaml has it. Read without a YAML parser, whose import would cost more than the rest."""
    found = re.search(r"^name:\s*[\"']?([A-Za-z0-9_.-]+)", read_text(root / "Pulumi.yaml"), re.MULTILINE)
    return found[1] if found else ""


def stack_target(stack: str) -> str:
    """stack: text of a stack file."""
    found = re.search(r"^ +[\"']?slipway:target[\"']?: *[\"']?([\w-]+)", stack, re.MULTILINE)
    return found[1] if found else ""


def has_google_login(stack: str) -> bool:
    """stack: text of a stack file, whose config may hold what Google's plugin logs in with."""
    return re.search(r"^ +[\"']?gcp:(credentials|accessToken)[\"']?:", stack, re.MULTILINE) is not None


def stack_name(command: Command, environment: Mapping[str, str], root: Path, project: str) -> str:
    """Of the command's stack, named or selected, without its organization; empty where there is none."""
    named = command.stack or environment.get("PULUMI_STACK") or selected_stack(environment, root, project)
    return named.rpartition("/")[2]


def project_directory(start: Path) -> Path | None:
    return next((folder for folder in (start, *start.parents) if (folder / "Pulumi.yaml").exists()), None)


def engine_directory(root: Path) -> Path:
    recorded = read_text(root / ".venv" / "engine-path").strip()
    engine = Path(recorded)
    if not recorded or not os.access(engine / "pulumi", os.X_OK) or engine.resolve() == (root / ".venv/bin").resolve():
        raise RefusalError("no Pulumi engine yet; run: make setup")
    return engine


# --- acting ---


def clear_locks(command: Command, state: Path, project: str, stack: str | None) -> None:
    hostname = os.uname().nodename
    for lock in read_locks(state, project, stack):
        process = None if lock.pid is None else find_process(lock.pid)
        if holder_is_gone(lock, hostname, process):
            lock.path.unlink(missing_ok=True)
            lock.path.with_name(lock.path.name + ".attrs").unlink(missing_ok=True)
            print(
                f"note: removed the lock on stack {lock.stack!r} that a killed pulumi (pid {lock.pid}) left",
                file=sys.stderr,
            )
        elif command.mutates and stack is not None:
            raise RefusalError(explain(lock))


def create_stack(root: Path, engine: Path, environment: Mapping[str, str], project: str, stack: str) -> None:
    state = state_directory(root)
    folder = os.open(state, os.O_RDONLY)
    try:
        # two first commands at a time: one creates, the other finds it created
        fcntl.flock(folder, fcntl.LOCK_EX)
        if stack_states(state, project, stack):
            return
        made = subprocess.run(
            [engine / "pulumi", "stack", "init", stack, "--no-select", "--non-interactive", "--color", "never"],
            cwd=root,
            env=dict(environment),
            capture_output=True,
            text=True,
        )
    finally:
        os.close(folder)
    if made.returncode != 0:
        lines = (made.stderr.strip() or made.stdout.strip() or "it said nothing").splitlines()
        said = " ".join(line.strip() for line in lines[:2])  # of a YAML error the second has the place
        raise RefusalError(f"cannot create stack {stack!r} in {state}: {said.removeprefix('error: ')}")


@dataclass(frozen=True)
class Start:
    """The engine to become, its environment, and the lines to print before it starts."""

    engine: Path
    environment: dict[str, str]
    notices: tuple[str, ...] = ()


def prepare(arguments: Sequence[str], environment: Mapping[str, str], root: Path) -> Start:
    """What has to be done before the engine starts."""
    directory = engine_directory(root)
    engine = directory / "pulumi"
    command = parse(arguments)

    here = project_directory((Path.cwd() / (command.cwd or ".")).resolve())
    if here is not None and here != root.resolve():
        # another project, run with this .venv active: none of our state or stacks
        path = os.pathsep.join([str(directory), environment.get("PATH", os.defpath)])
        return Start(engine, {**environment, "PATH": path})

    project, url = project_name(root), state_url(root)
    chosen = environment.get("PULUMI_BACKEND_URL") != url and user_chose_backend(environment, root)
    if command.name in BACKEND_COMMANDS:
        return Start(engine, engine_environment(environment, root, directory, None))
    if not chosen:
        state_directory(root).mkdir(parents=True, exist_ok=True)
    ready = engine_environment(environment, root, directory, None if chosen else url)
    if not (command.needs_stack or command.mutates):
        return Start(engine, ready)
    if not chosen:
        make_stack_ready(command, ready, root, directory, project)
    named = stack_name(command, environment, root, project)
    states = None if chosen else stack_states(state_directory(root), project, named)
    stack = read_text(root / STACKS / f"Pulumi.{named}.yaml")
    return with_kubernetes(command, with_googles(command, Start(engine, ready), stack, states), stack)


def make_stack_ready(command: Command, environment: Mapping[str, str], root: Path, engine: Path, project: str) -> None:
    """Remove the lock that a dead engine left on the stack, and create the stack where it has a file but no state yet.

    Only for stacks whose state is in this clone. Raises RefusalError for a stack without a file.
    """
    named = command.stack or environment.get("PULUMI_STACK")
    stack = local_name(named, project) if named else None
    if named and not stack:
        return
    state = state_directory(root)
    clear_locks(command, state, project, stack)
    if stack and command.needs_stack and not stack_states(state, project, stack):
        if not (root / STACKS / f"Pulumi.{stack}.yaml").exists() and not command.config_file:
            known = [path.name[len("Pulumi.") : -len(".yaml")] for path in (root / STACKS).glob("Pulumi.*.yaml")]
            raise RefusalError(missing_stack(stack, known))
        create_stack(root, engine, environment, project, stack)


# --- what takes the place of Google, and of Pulumi's plugins ---


def with_googles(command: Command, start: Start, stack: str, states: Sequence[Path] | None = ()) -> Start:
    """Choose the plugin for Google's resources, where the stack may have any, and note what stands in for Google.

    stack: text of its file, empty where the stack is not known; then every stand-in is noted. states: the files with
    its state, None where that is not in this clone.
    """
    target = registry.named(stack_target(stack))
    asks = target.asks if target else None
    if not command.starts_providers or (target and google_plugin.NAME not in target.plugins):
        return replace(start, notices=_notes(emulated.sentences(start.environment, asks)))
    version = schema.version()
    choice = google_plugin.choose(start.environment, version)
    environment = google_plugin.with_choice(start.environment, choice)
    if choice.official and command.name not in PREVIEWS:
        _refuse(google_endpoints.problem_of_shell(environment))
    if choice.official and command.follows_file:
        _refuse(google_endpoints.problem_of_stack_file(stack, states))
    # the stand-in alone reads its variable
    heeded = {name: value for name, value in environment.items() if not (choice.official and name == emulated.STAND_IN)}
    notes = [*emulated.sentences(heeded, asks), *choice.passed_over]
    logged_in = google_plugin.has_credentials(environment) or has_google_login(stack)
    unknown_here = command.name in PREVIEWS and not logged_in
    if choice.official is None:
        notes.append(google_plugin.notice(version))
        environment = google_plugin.with_placeholder_token(environment) if unknown_here else environment
    elif unknown_here:
        notes.append(google_plugin.UNASKED_NOTICE)
        environment = google_plugin.without_asking_google(environment, choice.official)
    return replace(start, environment=environment, notices=_notes(notes))


def with_kubernetes(command: Command, start: Start, stack: str) -> Start:
    """Choose the plugin for what is declared in Kubernetes, where the stack may declare any, and note a stand-in.

    stack: as above.
    """
    target = registry.named(stack_target(stack))
    if not command.starts_providers or (target and kubernetes_plugin.NAME not in target.plugins):
        return start
    choice = kubernetes_plugin.choose(start.environment)
    environment = _with_tools(kubernetes_plugin.with_choice(start.environment, choice))
    return replace(start, environment=environment, notices=(*start.notices, *_notes(kubernetes_plugin.notices(choice))))


def _with_tools(environment: Mapping[str, str]) -> dict[str, str]:
    """A cluster's kubeconfig may log in by `slipway token`, by its name alone."""
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    return dict(environment) if str(TOOLS) in path else {**environment, "PATH": os.pathsep.join([*path, str(TOOLS)])}


def _refuse(problem: str | None) -> None:
    if problem:
        raise RefusalError(problem)


def _notes(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"note: {sentence}" for sentence in sentences)


def run(arguments: Sequence[str], environment: Mapping[str, str], root: Path) -> int:
    """Becomes the engine; returns only where it refuses to."""
    try:
        start = prepare(arguments, environment, root)
        for notice in start.notices:
            print(notice, file=sys.stderr)
        told = start.environment | {emulated.SAID: "yes"}
        # A background job of a script ignores SIGINT, and so would the plugins, which the engine ends by it: it waits
        # five seconds for each, and then kills it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execve(start.engine, [str(start.engine), *arguments], told)  # becoming the engine is the point
    except (RefusalError, OSError) as reason:
        print(f"error: {reason}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return REFUSED


def main() -> int:
    return run(sys.argv[1:], os.environ, ROOT)
