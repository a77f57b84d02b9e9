"""The arrows of docs/architecture.md: training/ never needs infra/, infra/ needs only the leaves of training/."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from infra.commands.main import VERBS

ROOT = Path(__file__).resolve().parents[2]
LEAVES = {
    "training.run_spec",
    "training.sharding",
    "training.exit_codes",
    "training.xla_flags",
    "training.host_status",
    "training.data.identity",
    "training.data.hash_cache",
    "training.data.prepared",
    "training.maxtext_config",
}


def imports(path: Path) -> set[str]:
    """Absolute module names that a file imports, anywhere in it."""
    found = set[str]()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found.add(str(node.module))
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


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


def test_the_day_2_command_and_the_provider_do_not_import_the_pulumi_sdk() -> None:
    """The SDK costs 0.8 s at every start, and the program alone needs it."""
    verbs = (f"infra.commands.{verb}" for verb in VERBS)
    for module in (", ".join(verbs), "infra.providers.registry", "infra.providers.server"):
        code = f"import sys, {module}; sys.exit('pulumi.resource' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0, module
