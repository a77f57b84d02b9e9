"""The `pulumi` of this project: gives the engine that setup got a state, a passphrase and a stack, and becomes it.

Owns: which engine runs, the state in .slipway/state where the user has chosen no backend, creating a stack's state on
first use, when locks of killed engines go, and saying that a stand-in takes the place of Google's provider. Refuses to
own: anything the engine does itself; every argument reaches it unchanged. Runs at every command, so it and what it
imports take the standard library only.
"""

from __future__ import annotations

import difflib
import fcntl
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from infra.engine_locks import explain, find_process, holder_is_gone, read_locks
from infra.paths import ROOT
from infra.standins import choose
from infra.standins.gcp import schema

STACKS = "stacks"  # stackConfigDir of Pulumi.yaml
GOOGLE_TARGETS = frozenset(("foundation",))  # those whose stacks declare resources of Google's provider

REFUSED = 255

# Flags whose value is the next argument: it may look like a command's word, or like `-s`.
VALUE_FLAGS = frozenset(
    (
        *("--cwd", "--color", "--tracing", "--otel-traces", "--profiling", "--memprofilerate", "--verbose"),
        *("--message", "--config", "--config-file", "--target", "--target-replace", "--replace", "--exclude"),
        *("--parallel", "--secrets-provider", "--policy-pack", "--policy-pack-config", "--file", "--plan"),
    )
)
VALUE_LETTERS = frozenset("Cvmcptx")

# Commands that work on one stack, which has to exist. The engine's own aliases are spelled out.
STACK_COMMANDS = frozenset(
    (
        *("preview", "pre", "up", "update", "refresh", "destroy", "down", "dn", "import", "watch"),
        *("config", "stack", "cancel", "logs", "state", "console", "env"),
    )
)
# `pulumi stack X` that make, list or remove stacks instead.
STACK_ADMINISTRATION = frozenset(("init", "new", "ls", "list", "rm", "remove", "unselect"))
PREVIEWS = frozenset(("preview", "pre"))
MUTATING = frozenset(("up", "update", "refresh", "destroy", "down", "dn", "import", "watch"))
MUTATING_STACK = frozenset(("rm", "remove", "import", "rename"))
# These choose a backend, which ours must not answer for.
BACKEND_COMMANDS = frozenset(("login", "logout"))


class RefusalError(Exception):
    """Why the engine is not started, in one sentence."""


# --- what the command line says ---


@dataclass(frozen=True)
class Command:
    """words: the arguments that are no flags. stack: as given, maybe `organization/project/name`."""

    words: tuple[str, ...]
    stack: str | None
    cwd: str | None
    help: bool
    config_file: bool

    @property
    def name(self) -> str:
        return self.words[0] if self.words else ""

    @property
    def action(self) -> str:
        return self.words[1] if len(self.words) > 1 else ""

    @property
    def needs_stack(self) -> bool:
        administration = self.name == "stack" and self.action in STACK_ADMINISTRATION
        return self.name in STACK_COMMANDS and not administration and not self.help

    @property
    def mutates(self) -> bool:
        mutating = self.name in MUTATING or (self.name == "stack" and self.action in MUTATING_STACK)
        return mutating and not self.help


def parse(arguments: Sequence[str]) -> Command:
    words: list[str] = []
    values: dict[str, str] = {}
    seen_help = False
    rest: Iterator[str] = iter(arguments)
    for argument in rest:
        if argument == "--":
            break
        if argument.startswith("--"):
            flag, equals, value = argument.partition("=")
            if flag in VALUE_FLAGS or flag == "--stack":
                values[flag] = value if equals else next(rest, "")
            seen_help = seen_help or flag == "--help"
        elif argument.startswith("-") and len(argument) > 1:
            for position, letter in enumerate(argument[1:], start=2):
                seen_help = seen_help or letter == "h"
                if letter == "s" or letter in VALUE_LETTERS:
                    value = argument[position:].removeprefix("=") or next(rest, "")
                    values[{"s": "--stack", "C": "--cwd"}.get(letter, letter)] = value
                    break
        else:
            words.append(argument)
    stack = values.get("--stack")
    if stack is None and words[:1] == ["cancel"] and len(words) > 1:
        stack = words[1]
    if (
        stack is None
        and words[:1] == ["stack"]
        and words[1:2]
        and words[1] in ("select", "rm", "remove")
        and len(words) > 2
    ):
        stack = words[2]
    return Command(tuple(words), stack or None, values.get("--cwd"), seen_help, "--config-file" in values)


def local_name(stack: str, project: str) -> str | None:
    """The stack's own name, or None where it is another project's, or no name at all (the engine says so better)."""
    *owner, name = stack.split("/")
    if owner and owner[-1] != project and len(owner) > 1:
        return None
    return name if re.fullmatch(r"[A-Za-z0-9_.-]+", name) else None


# --- which backend, and what the engine finds in its environment ---


def user_chose_backend(environment: Mapping[str, str], credentials: str, project: str) -> bool:
    """credentials: text of Pulumi's credentials.json, project: text of Pulumi.yaml; empty where there is none."""
    if environment.get("PULUMI_BACKEND_URL"):
        return True
    if re.search(r"^backend:", project, re.MULTILINE):
        return True
    try:
        return bool(json.loads(credentials or "{}").get("current"))
    except (ValueError, AttributeError):
        return True  # a broken file is the engine's to explain


def credentials_path(environment: Mapping[str, str]) -> Path:
    folder = environment.get("PULUMI_CREDENTIALS_PATH") or environment.get("PULUMI_HOME")
    home = Path(folder) if folder else Path(environment.get("HOME") or "/", ".pulumi")
    return home / "credentials.json"


def state_directory(root: Path) -> Path:
    return root / ".slipway" / "state"


def state_url(root: Path) -> str:
    return "file://" + quote(str(state_directory(root)))


def engine_environment(
    environment: Mapping[str, str], root: Path, engine: Path, backend_url: str | None, google: bool
) -> dict[str, str]:
    """The project's Python comes first on PATH (a built language host looks nowhere else), then the engine.

    google: whether the stack may have resources of Google's provider. For others the engine would only say that it
    has found the stand-in.
    """
    result = dict(environment)
    venv = root / ".venv"
    first = [str(venv / "bin"), str(engine)]
    others = [part for part in environment.get("PATH", os.defpath).split(os.pathsep) if part not in first]
    result["PATH"] = os.pathsep.join([*first, *others])
    result["VIRTUAL_ENV"] = str(venv)
    result["PULUMI_SKIP_UPDATE_CHECK"] = "true"
    result.setdefault("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true")
    if "PULUMI_CONFIG_PASSPHRASE_FILE" not in result:
        # stack files carry a salt for the empty passphrase; without any passphrase even a preview fails
        result.setdefault("PULUMI_CONFIG_PASSPHRASE", "")
    if backend_url is not None:
        result["PULUMI_BACKEND_URL"] = backend_url
    # an executable on PATH wins over an installed plugin, so the stand-in is there only without one
    stand_in = google and not choose.official_plugin(result, schema.version())
    return choose.with_stand_in(result) if stand_in else result


# --- stacks ---


def stack_is_in_state(state: Path, project: str, stack: str) -> bool:
    folder = state / ".pulumi" / "stacks" / project
    return any((folder / f"{stack}.json{ending}").exists() for ending in ("", ".gz"))


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


def project_name(project: str) -> str:
    """project: text of Pulumi.yaml. Read without a YAML parser, whose import would cost more than the rest."""
    found = re.search(r"^name:\s*[\"']?([A-Za-z0-9_.-]+)", project, re.MULTILINE)
    return found[1] if found else ""


def stack_target(stack: str) -> str:
    """stack: text of a stack file."""
    found = re.search(r"^ +[\"']?slipway:target[\"']?: *[\"']?([\w-]+)", stack, re.MULTILINE)
    return found[1] if found else ""


def target_of(command: Command, environment: Mapping[str, str], root: Path) -> str:
    """The target of the command's stack; empty where the command names no stack, or one without a file."""
    stack = (command.stack or environment.get("PULUMI_STACK") or "").rpartition("/")[2]
    return stack_target(read_text(root / STACKS / f"Pulumi.{stack}.yaml"))


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
        if stack_is_in_state(state, project, stack):
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


def prepare(arguments: Sequence[str], environment: Mapping[str, str], root: Path) -> tuple[Path, dict[str, str]]:
    """The engine to become and its environment, after what has to be done first."""
    engine = engine_directory(root)
    command = parse(arguments)

    here = project_directory((Path.cwd() / (command.cwd or ".")).resolve())
    if here is not None and here != root.resolve():
        # another project, run with this .venv active: none of our state or stacks
        path = os.pathsep.join([str(engine), environment.get("PATH", os.defpath)])
        return engine / "pulumi", {**environment, "PATH": path}

    project_text = read_text(root / "Pulumi.yaml")
    url = state_url(root)
    target = target_of(command, environment, root)
    google = target in GOOGLE_TARGETS or not target
    chosen = environment.get("PULUMI_BACKEND_URL") != url and user_chose_backend(
        environment, read_text(credentials_path(environment)), project_text
    )
    if chosen or command.name in BACKEND_COMMANDS:
        return engine / "pulumi", engine_environment(environment, root, engine, None, google)

    state = state_directory(root)
    state.mkdir(parents=True, exist_ok=True)
    ready = engine_environment(environment, root, engine, url, google)
    if not (command.needs_stack or command.mutates):
        return engine / "pulumi", ready

    project = project_name(project_text)
    given = command.stack or environment.get("PULUMI_STACK")
    stack = local_name(given, project) if given else None
    if given and not stack:
        return engine / "pulumi", ready
    clear_locks(command, state, project, stack)
    if stack and command.needs_stack and not stack_is_in_state(state, project, stack):
        if not (root / STACKS / f"Pulumi.{stack}.yaml").exists() and not command.config_file:
            known = [path.name[len("Pulumi.") : -len(".yaml")] for path in (root / STACKS).glob("Pulumi.*.yaml")]
            raise RefusalError(missing_stack(stack, known))
        create_stack(root, engine, ready, project, stack)
    return engine / "pulumi", ready


def tell_stand_in(command: Command, environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """The first line says that Google did not check; a preview needs no account."""
    if command.name not in (*PREVIEWS, "up", "update") or command.help or not choose.finds_stand_in(environment):
        return dict(environment)
    if target_of(command, environment, root) not in GOOGLE_TARGETS:
        return dict(environment)
    print(choose.notice(schema.version()), file=sys.stderr)
    return choose.with_placeholder_token(environment) if command.name in PREVIEWS else dict(environment)


def run(arguments: Sequence[str], environment: Mapping[str, str], root: Path) -> int:
    """Becomes the engine; returns only where it refuses to."""
    try:
        engine, ready = prepare(arguments, environment, root)
        ready = tell_stand_in(parse(arguments), ready, root)
        os.execve(engine, [str(engine), *arguments], ready)  # becoming the engine is the point
    except (RefusalError, OSError) as reason:
        print(f"error: {reason}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    return REFUSED


def main() -> int:
    return run(sys.argv[1:], os.environ, ROOT)
