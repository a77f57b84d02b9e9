"""What `make test` says at its end, what it repeats, which cases it samples, and where it runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra.paths import ROOT
from tests.suite import defects, examples
from tests.suite.__main__ import Result, chosen, command_for, exit_code, missing_cluster, report, sessions
from tests.suite.plugin import sample
from tests.suite.times import by_module

EXAMPLES = "tests/suite/examples.py"


def suite(work: Path, only: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`make test ONLY=...` as a background job of a shell starts it: with SIGINT ignored."""
    command = [sys.executable, "-m", "tests.suite", "--work", str(work), "--only", only, *arguments]
    script = 'trap "" INT; exec "$@"'
    return subprocess.run(
        ["bash", "-c", script, "bash", *command],
        cwd=ROOT,
        env=os.environ | {examples.FOLDER: str(work)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_fails_twice_is_red_and_its_command_comes_first(tmp_path: Path) -> None:
    done = suite(tmp_path, EXAMPLES, "--repeat")
    assert done.returncode == 1
    end = done.stdout[done.stdout.rindex(" passed, 2 failed\n") :].splitlines()
    assert end[3:6] == [
        "failed; each alone:",
        f"  make test ONLY='{EXAMPLES}::test_fails_always[a]'",
        f"""  make test ONLY='{EXAMPLES}::test_fails_always[b'"'"'s $$x]'""",
    ]
    assert end[-1] == f"flaky: {EXAMPLES}::test_fails_the_first_time"
    ran = [json.loads(line) for line in (tmp_path / "operator.jsonl").read_text().splitlines()]
    assert {one["name"]: one["outcome"] for one in ran}[f"{EXAMPLES}::test_a_child_is_interrupted"] == "passed"
    assert sum("test_sampled" in one["name"] for one in ran) == 2


def test_the_command_that_is_printed_runs_that_test_alone() -> None:
    name = f"{EXAMPLES}::test_fails_always[b's $x]"
    command = f"{command_for(name)} ARGS=--collect-only"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.findall(r"^tests/.*::.*$", done.stdout, re.MULTILINE) == [name], done.stdout + done.stderr


def test_a_soak_runs_all_cases(tmp_path: Path) -> None:
    done = suite(tmp_path, EXAMPLES, "--soak")
    assert done.returncode == 0, done.stdout
    assert "\n20 passed, 0 failed\n" in done.stdout


def test_another_seed_is_another_sample() -> None:
    cases = [f"test_x[{number}]" for number in range(20)]
    samples = [sample("test_x", cases, 2, seed) for seed in (1, 1, 2)]
    assert samples[0] == samples[1] != samples[2]
    assert sample("test_x", cases, 30, 1) == set(cases)


def test_a_name_that_matches_nothing_is_red(tmp_path: Path) -> None:
    assert suite(tmp_path, f"{EXAMPLES}::test_no_such_test").returncode != 0


def test_only_what_passed_when_repeated_is_not_red() -> None:
    passed, failed = Result("a", "passed", 1.0), Result("b", "failed", 1.0)
    assert exit_code([0, 0], [passed], []) == 0
    assert exit_code([0, 1], [passed, failed], ["b"]) == 0
    assert exit_code([0, 1], [passed, failed], []) == 1
    assert exit_code([2, 0], [passed], []) == 1
    assert exit_code([0, 0], [], []) == 1


def test_names_go_to_the_environment_that_has_what_they_import() -> None:
    both = chosen("tests/unit/test_cost.py::test_a[x y] tests/training/test_hosts.py")
    assert both == ["tests/unit/test_cost.py::test_a[x y]", "tests/training/test_hosts.py"]
    operator, hosts = sessions(both, ["-x"])
    assert operator.command == (sys.executable, "-m", "pytest", both[0], "-x")
    assert hosts.command[1:] == ("-m", "pytest", both[1], "-x")
    assert hosts.command[0] == str(ROOT / ".slipway" / "env" / "dev" / "bin" / "python")


def test_all_tests_of_hosts_run_and_each_once() -> None:
    _, launches, others = (session.command[3:] for session in sessions([], []))
    assert launches == ("tests/training/test_launch.py",)
    assert others == ("tests/training", "--ignore=tests/training/test_launch.py")


def test_tests_of_a_cluster_run_where_one_can_be_started() -> None:
    folders = ("tests/unit", "tests/engine")
    for has_cluster, every in ((False, folders), (True, (*folders, "tests/cluster"))):
        operator = sessions([], [], has_cluster)[0]
        assert tuple(word for word in operator.command if word.startswith("tests/")) == every


def test_where_no_cluster_is_built_what_builds_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path))
    assert "is not built on this machine; tools/cluster.sh builds it" in missing_cluster()


def test_the_quick_suite_is_the_unit_tests_unless_others_are_named() -> None:
    (quick,) = sessions(chosen("", quick=True), [])
    assert quick.command[3] == "tests/unit"
    assert chosen("tests/engine/test_fit.py", quick=True) == ["tests/engine/test_fit.py"]
    assert chosen("") == []


def test_the_slowest_are_listed() -> None:
    results = [Result(f"tests/a.py::test_{number}", "passed", float(number), 1.5) for number in range(40)]
    lines = report(results, 100.0).splitlines()
    assert "100 s, 60 s of a processor" in lines
    slowest = lines[lines.index("slowest (seconds, and those of a processor):") + 1 :]
    assert len(slowest) == 15
    assert slowest[0] == "    39.0 s    1.5 s  tests/a.py::test_39"


def test_times_are_by_module_and_the_longest_come_first() -> None:
    assert by_module([("a.py::x", 1.0), ("b.py::y", 5.0), ("a.py::z[::]", 1.5)]) == {"b.py": 5.0, "a.py": 2.5}


def test_every_defect_can_be_applied_and_its_tests_exist() -> None:
    """`make defects` runs them; here only that a changed line or a renamed test is noticed at once."""
    known = defects.load()
    assert len(known) >= 40
    assert len({one.name for one in known}) == len(known)
    for one in known:
        one.applied((ROOT / one.file).read_text())
        for test in one.tests:
            file, *_, function = test.partition("[")[0].split("::")
            assert f"def {function}(" in (ROOT / file).read_text(), f"{one.name}: no {test}"
