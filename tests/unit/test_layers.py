"""The arrows of docs/architecture.md: training/ never needs infra/, infra/ needs only the leaves of training/."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from infra.commands.main import VERBS, module_name
from infra.targets.registry import Target

ROOT = Path(__file__).resolve().parents[2]
LEAVES = {
    "training.run_spec",
    "training.sharding",
    "training.run_objects",
    "training.step_record",
    "training.step_times",
    "training.exit_codes",
    "training.gpu_environment",
    "training.xla_flags",
    "training.host_status",
    "training.data.demand",
    "training.data.identity",
    "training.data.hash_cache",
    "training.data.prepared",
    "training.maxtext_config",
    "training.reader_shares",
    "training.s3_objects",
}


@cache
def imports(path: Path) -> frozenset[str]:
    """Absolute module names that a file imports, anywhere in it."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.add(str(node.module))
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def below(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("path", below("training"), ids=lambda path: str(path.relative_to(ROOT)))
def test_training_never_imports_infra_or_pulumi(path: Path) -> None:
    assert not {name for name in imports(path) if name.split(".")[0] in ("infra", "pulumi", "tests", "bench")}


@pytest.mark.parametrize("path", below("infra"), ids=lambda path: str(path.relative_to(ROOT)))
def test_infra_imports_only_leaves_of_training(path: Path) -> None:
    modules = {name for name in imports(path) if name.split(".")[0] == "training"}
    allowed = {name for name in modules if any(name == leaf or name.startswith(leaf + ".") for leaf in LEAVES)}
    assert modules - allowed <= {"training"}


def test_leaves_import_only_the_standard_library_and_yaml() -> None:
    for leaf in LEAVES:
        path = ROOT / (leaf.replace(".", "/") + ".py")
        tops = {name.split(".")[0] for name in imports(path)}
        foreign = tops - set(sys.stdlib_module_names) - {"yaml", "training"}
        assert not foreign, f"{leaf} imports {foreign}"
        assert {name for name in imports(path) if is_module(name)} <= LEAVES


def is_module(name: str) -> bool:
    """A module of training/, not a name in one or the package itself."""
    return name.startswith("training.") and (ROOT / (name.replace(".", "/") + ".py")).exists()


# Which rooms of infra/ a room may import, besides the modules at the root and the contract of targets, on which
# everything stands. `targets` is the line of every target, and none imports another; `_MORE` is what one needs besides.
_CONTRACT = ("contract", "errors", "registry", "hosts", "phases", "billed", "host_variables", "needs", "places")
_BASE = ("targets", *(f"targets.{name}" for name in _CONTRACT))
_MORE = {
    "targets.foundation": ("rules", "engine", "standins"),  # its buckets, and moving the engine's state into one
}
ROOMS: dict[str, tuple[str, ...]] = {
    "rules": (),
    "artifacts": (),
    "vm_hosts": (),
    "pods": ("stack_file", "host_software", "runs"),
    "gke": (  # what targets that make a cluster of GKE share
        *("rules", "standins", "stack_file", "preview", "providers", "components", "google_cloud", "doctor", "pods"),
    ),
    "stack_file": ("rules",),
    "host_software": ("stack_file", "artifacts"),
    "emulators": ("stack_file", "artifacts", "host_software", "vm_hosts"),
    "runs": ("stack_file", "artifacts", "host_software"),
    "preview": ("stack_file", "host_software", "runs"),
    "importing": ("stack_file", "preview", "pods"),
    "providers": ("artifacts", "host_software", "runs", "pods"),
    "components": ("stack_file", "artifacts", "host_software", "runs", "pods", "providers"),
    "google_cloud": ("providers",),
    "standins": ("providers",),
    "engine": ("providers", "standins"),
    "doctor": ("stack_file", "artifacts", "host_software", "preview", "google_cloud", "standins", "engine"),
    "operate": ("stack_file",),
    "targets": (
        *("stack_file", "artifacts", "host_software", "runs", "preview", "providers", "components"),
        *("google_cloud", "doctor", "vm_hosts", "pods", "gke"),
    ),
    "commands": (
        *("stack_file", "artifacts", "host_software", "runs", "preview"),
        *("engine", "doctor", "operate", "emulators", "importing"),
    ),
}


def room(module: str) -> str:
    """The room of `infra.room.module`; a target is a room of its own. Empty for what stands at the root."""
    first, _, rest = module.removeprefix("infra.").partition(".")
    if first == "targets" and rest:
        return f"targets.{rest.partition('.')[0]}"
    return first if (ROOT / "infra" / first).is_dir() else ""


def test_every_folder_of_infra_is_a_room_in_the_table() -> None:
    assert {path.parent.name for path in (ROOT / "infra").glob("*/__init__.py")} == set(ROOMS)


@pytest.mark.parametrize("path", below("infra"), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_the_rooms_that_its_line_names(path: Path) -> None:
    own = room(".".join(path.relative_to(ROOT).with_suffix("").parts))
    if not own:
        return  # the program and what everything stands on
    assert rooms_of(path) <= {"", own, *_BASE, *ROOMS[own.partition(".")[0]], *_MORE.get(own, ())}


def rooms_of(path: Path) -> set[str]:
    return {room(name) for name in imports(path) if name.startswith("infra.") and is_python(name)}


def test_every_arrow_is_used() -> None:
    """By infra/, or by a target that a test adds."""
    used = {name: set[str]() for name in (*ROOMS, *_MORE)}
    for path in (*below("infra"), *(ROOT / "tests" / "engine").glob("demo_*/*.py.txt")):
        own = room(".".join(path.relative_to(ROOT).with_suffix("").parts)) if path.suffix == ".py" else "targets"
        for line in {own, own.partition(".")[0]} & used.keys():
            used[line] |= rooms_of(path)
    unused = {name: set(rooms) - used[name] for name, rooms in (ROOMS | _MORE).items()}
    assert not {name: rooms for name, rooms in unused.items() if rooms}


def is_python(name: str) -> bool:
    """A module or a package, not a name in one."""
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def test_no_module_of_infra_imports_itself_through_others() -> None:
    """Imports inside functions and for types alone count too: they are circles all the same."""
    modules = {name_of(path): path for path in below("infra")}
    needs = {name: set(imports(path) & modules.keys()) for name, path in modules.items()}
    for name in needs:
        needs[name] -= {name, *(parent for parent in needs if name.startswith(f"{parent}."))}
    graphlib.TopologicalSorter(needs).prepare()


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def test_no_two_public_classes_have_one_name() -> None:
    """Emulators count too: what plays Google has names of its own."""
    files = [path for folder in ("infra", "training", "tests/emulators") for path in below(folder)]
    names = [
        (node.name, str(path.relative_to(ROOT)))
        for path in files
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    counts = Counter(name for name, _ in names)
    assert not [(name, path) for name, path in names if counts[name] > 1]


def test_the_registry_alone_names_targets() -> None:
    """Outside infra/targets/, code asks infra/targets/registry.py what a target offers."""
    for path in below("infra"):
        if "targets" in path.relative_to(ROOT / "infra").parts[:1]:
            continue
        values = {target.value for target in Target} - {
            "local",
            "foundation",
            "kubernetes",
            "vertex",
        }  # words of other things too
        words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not words & values, path
        assert not {name for name in imports(path) if name.startswith(tuple(target.folder for target in Target))}, path


def test_the_day_2_command_and_the_provider_do_not_import_the_pulumi_sdk() -> None:
    """The SDK costs 0.8 s at every start, and the program alone needs it."""
    verbs = (f"infra.commands.{module_name(verb)}" for verb in VERBS)
    for module in (", ".join(verbs), "infra.providers.registry", "infra.providers.server"):
        code = f"import sys, {module}; sys.exit('pulumi.resource' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0, module
