"""Patches as data: what they are to a wheel, and the wheel that they make. Wheels are made up; git and uv are real."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from infra.commands.main import app
from infra.host_software.wheels import patches
from infra.host_software.wheels.patches import (
    PatchError,
    PatchOutcome,
    PatchSet,
    apply,
    content_hash,
    load_all,
    newest,
    state_of,
)
from infra.host_software.wheels.repack import local_version, repack

UV = Path(sys.prefix) / "bin" / "uv"
GREETING = "# Words.\n# More.\ndef greet(name):\n    text = 'hello ' + name\n    return text\n"
OTHER = "A = 1\nB = 2\nC = 3\n"
FILES = {"demo/greeting.py": GREETING, "demo/other.py": OTHER, "demo/__init__.py": ""}

POLITE = """\
Text before the diff is a letter to upstream.
--- a/demo/greeting.py
+++ b/demo/greeting.py
@@ -2,4 +2,4 @@
 # More.
 def greet(name):
-    text = 'hello ' + name
+    text = 'dear ' + name
     return text
"""
LOUD = """\
--- a/demo/greeting.py
+++ b/demo/greeting.py
@@ -2,4 +2,4 @@
 # More.
 def greet(name):
     text = 'dear ' + name
-    return text
+    return text.upper()
--- /dev/null
+++ b/demo/volume.py
@@ -0,0 +1 @@
+LOUD = True
"""
ANSWER = """\
--- a/demo/other.py
+++ b/demo/other.py
@@ -1,3 +1,3 @@
 A = 1
-B = 2
+B = 42
 C = 3
"""
DIFFS = {"0001-polite.patch": POLITE, "0002-loud.patch": LOUD, "0003-answer.patch": ANSWER}


def patch_set(root: Path, version: str = "1.0", files: Mapping[str, str] = FILES, package: str = "demo") -> PatchSet:
    """DIFFS as a directory, for files as upstream published them."""
    directory = root / f"{package}-{version}"
    directory.mkdir(parents=True)
    for name, text in DIFFS.items():
        (directory / name).write_text(text)
    lines = [f"{sha256(files[path])}  {path}\n" for path in ("demo/greeting.py", "demo/other.py")]
    (directory / patches.EXPECTED).write_text("".join(lines))
    (loaded,) = [found for found in load_all(root) if found.version == version]
    return loaded


def unpacked(directory: Path, files: Mapping[str, str] = FILES) -> Path:
    for path, text in files.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    return directory


def made_wheel(directory: Path, files: Mapping[str, str] = FILES, version: str = "1.0") -> Path:
    """A compressed wheel with a script, a signature and today's dates, as build tools make them."""
    info = f"demo-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\nSummary: s\n\nVersion: is not a header here\n"
    content = {
        **files,
        f"demo-{version}.data/scripts/run-demo": "#!python\nprint('runs')\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD.jws": "{}",
    }
    rows = "".join(f"{path},sha256={record_hash(text.encode())},{len(text)}\n" for path, text in content.items())
    directory.mkdir(parents=True, exist_ok=True)
    wheel = directory / f"demo-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in {**content, f"{info}/RECORD": rows + f"{info}/RECORD,,\n"}.items():
            item = zipfile.ZipInfo(path, time.localtime()[:6])
            item.external_attr = (0o100775 if "scripts" in path else 0o100600) << 16
            archive.writestr(item, text)
    return wheel


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record_hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def states(found: list[patches.PatchState]) -> list[PatchOutcome]:
    return [state.state for state in found]


def test_patches_of_the_published_version_apply(tmp_path: Path) -> None:
    directory = unpacked(tmp_path / "wheel")
    found = state_of(patch_set(tmp_path / "sets"), directory)
    assert [str(state) for state in found] == [
        "0001-polite.patch: applies",
        "0002-loud.patch: applies",
        "0003-answer.patch: applies",
    ]
    assert (directory / "demo/greeting.py").read_text() == GREETING  # looking changes nothing


def test_lines_that_moved_still_take_a_patch(tmp_path: Path) -> None:
    moved = FILES | {"demo/greeting.py": "import os\n\n\n" + GREETING}
    assert (
        states(state_of(patch_set(tmp_path / "sets"), unpacked(tmp_path / "wheel", moved)))
        == [PatchOutcome.APPLIES] * 3
    )


def test_changed_code_is_drift_of_the_patch_and_of_what_builds_on_it(tmp_path: Path) -> None:
    changed = FILES | {"demo/greeting.py": GREETING.replace("'hello '", "'hi '")}
    found = state_of(patch_set(tmp_path / "sets"), unpacked(tmp_path / "wheel", changed))
    assert [str(state) for state in found] == [
        "0001-polite.patch: drifted (demo/greeting.py)",
        "0002-loud.patch: drifted (demo/greeting.py)",
        "0003-answer.patch: applies",
    ]


def test_removed_file_is_drift(tmp_path: Path) -> None:
    left = {path: text for path, text in FILES.items() if path != "demo/other.py"}
    found = state_of(patch_set(tmp_path / "sets"), unpacked(tmp_path / "wheel", left))
    assert str(found[2]) == "0003-answer.patch: drifted (demo/other.py)"


def test_patch_that_upstream_took_has_landed_and_the_next_builds_on_it(tmp_path: Path) -> None:
    took = FILES | {"demo/greeting.py": GREETING.replace("'hello '", "'dear '")}
    found = state_of(patch_set(tmp_path / "sets"), unpacked(tmp_path / "wheel", took))
    assert states(found) == [PatchOutcome.LANDED, PatchOutcome.APPLIES, PatchOutcome.APPLIES]


def test_two_patches_of_the_same_lines_can_both_have_landed(tmp_path: Path) -> None:
    """The first cannot be taken back by itself: the second has changed the lines around it."""
    took = FILES | {"demo/greeting.py": GREETING.replace("'hello '", "'dear '").replace("text\n", "text.upper()\n")}
    took["demo/volume.py"] = "LOUD = True\n"
    found = state_of(patch_set(tmp_path / "sets"), unpacked(tmp_path / "wheel", took))
    assert states(found) == [PatchOutcome.LANDED, PatchOutcome.LANDED, PatchOutcome.APPLIES]


@pytest.fixture
def inside_a_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A work tree, and the variables that git gives its hooks. `git apply` here does nothing, successfully."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    config = tmp_path / "config"
    config.write_text("[apply]\n\twhitespace = error\n[core]\n\tautocrlf = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    yield tmp_path


def test_wheel_in_a_git_work_tree_is_patched(inside_a_hook: Path) -> None:
    found = patch_set(inside_a_hook / "sets")
    directory = unpacked(inside_a_hook / "ignored" / "wheel", FILES | {"demo/other.py": OTHER})
    apply(found, directory)
    assert "'dear '" in (directory / "demo/greeting.py").read_text()
    assert "upper" in (directory / "demo/greeting.py").read_text()
    assert (directory / "demo/volume.py").read_text() == "LOUD = True\n"
    assert (directory / "demo/other.py").read_bytes() == b"A = 1\nB = 42\nC = 3\n"


def test_applying_to_a_drifted_file_names_it_and_the_patch_and_changes_nothing(tmp_path: Path) -> None:
    changed = OTHER + "D = 4\n"
    drifted = unpacked(tmp_path / "wheel", FILES | {"demo/other.py": changed})
    with pytest.raises(PatchError) as error:
        apply(patch_set(tmp_path / "sets"), drifted)
    assert str(error.value) == (
        f"demo/other.py is another file than 0003-answer.patch expects (SHA-256 {sha256(changed)[:12]}, "
        f"expected {sha256(OTHER)[:12]}): the wheel is not demo 1.0 as published; see training/patches/README.md"
    )
    assert (drifted / "demo/greeting.py").read_text() == GREETING


def test_applying_to_a_missing_file_names_it(tmp_path: Path) -> None:
    left = unpacked(tmp_path / "wheel", {"demo/greeting.py": GREETING})
    with pytest.raises(PatchError, match=r"demo/other\.py is missing, and 0003-answer\.patch expects it"):
        apply(patch_set(tmp_path / "sets"), left)


def test_patch_that_does_not_fit_its_own_version_names_file_and_patch(tmp_path: Path) -> None:
    odd = FILES | {"demo/other.py": "A = 0\n"}  # files.sha256 says so too, but the diff was made from another file
    with pytest.raises(PatchError, match=r"0003-answer\.patch of demo 1\.0 does not apply to demo/other\.py: error: "):
        apply(patch_set(tmp_path / "sets", files=odd), unpacked(tmp_path / "wheel", odd))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "fix.patch",
            ANSWER,
            r"demo-1\.0 has fix\.patch, which is no patch named NNNN-why\.patch; rename or remove it",
        ),
        (".DS_Store", "", r"demo-1\.0 has \.DS_Store, which is no patch named NNNN-why\.patch; rename or remove it"),
        ("notes.txt", "words", r"demo-1\.0 has notes\.txt, which is no patch"),
        ("0001-polite.patch~", POLITE, r"demo-1\.0 has 0001-polite\.patch~, which is no patch"),
        (".0001-polite.patch.swp", POLITE, r"demo-1\.0 has \.0001-polite\.patch\.swp, which is no patch"),
        (
            "0004-more.patch",
            ANSWER.replace("other", "more"),
            r"does not list what the patches change \(demo/more\.py\)",
        ),
        ("0004-prose.patch", "only words\n", r"0004-prose\.patch is not a unified diff"),
        ("files.sha256", "abc demo/other.py\n", r"has the line 'abc demo/other\.py'; expected a line of sha256sum"),
    ],
)
def test_patch_set_that_is_not_whole_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    patch_set(tmp_path)
    (tmp_path / "demo-1.0" / name).write_text(text)
    with pytest.raises(PatchError, match=message):
        load_all(tmp_path)


def test_directory_in_a_patch_set_is_refused(tmp_path: Path) -> None:
    patch_set(tmp_path)
    (tmp_path / "demo-1.0" / "0004-more.patch").mkdir()
    with pytest.raises(PatchError, match=r"training/patches/demo-1\.0 has 0004-more\.patch, which is no patch named"):
        load_all(tmp_path)


@pytest.mark.parametrize("name", ["0003-answer.patch", "files.sha256"])
def test_file_of_a_patch_set_that_is_no_text_is_named(name: str, tmp_path: Path) -> None:
    patch_set(tmp_path)
    (tmp_path / "demo-1.0" / name).write_bytes(b"\xff\xfe" + ANSWER.encode("utf-16-le"))
    with pytest.raises(PatchError) as caught:
        load_all(tmp_path)
    assert str(caught.value) == f"training/patches/demo-1.0/{name} is not UTF-8 text; save it as UTF-8, or remove it"


@pytest.mark.parametrize("name", [".idea", "-1.0", "demo", "demo-latest"])
def test_directory_that_names_no_version_of_a_package_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(PatchError) as caught:
        load_all(tmp_path)
    assert str(caught.value) == (
        f"training/patches/{name} is not named <package>-<version>; rename the directory, or remove it"
    )


def test_patch_set_without_hashes_is_refused(tmp_path: Path) -> None:
    patch_set(tmp_path)
    (tmp_path / "demo-1.0" / patches.EXPECTED).unlink()
    with pytest.raises(PatchError, match=r"demo-1\.0 has no files\.sha256"):
        load_all(tmp_path)


def test_content_hash_follows_patches_and_expectations_alone(tmp_path: Path) -> None:
    one, same = patch_set(tmp_path / "a"), patch_set(tmp_path / "b")
    assert content_hash(one) == content_hash(same)
    other_file = FILES | {"demo/other.py": OTHER + "\n"}
    assert content_hash(patch_set(tmp_path / "c", files=other_file)) != content_hash(one)
    renamed = tmp_path / "b" / "demo-1.0" / "0003-answer.patch"
    renamed.write_text(ANSWER.replace("42", "43"))
    assert content_hash(load_all(tmp_path / "b")[0]) != content_hash(one)


def test_content_hash_is_no_number(tmp_path: Path) -> None:
    """PEP 440 drops the leading zeros of a local version that is a number, and pip would then see another one."""
    for count in range(50):
        found = patch_set(tmp_path / str(count), files=FILES | {"demo/other.py": "x" * count})
        assert content_hash(found)[0] in "abcdef" and len(content_hash(found)) == 8


def test_newest_patch_set_stands_in_for_a_version_without_one(tmp_path: Path) -> None:
    sets = [patch_set(tmp_path, version) for version in ("1.9", "1.10")]
    assert newest("demo", "1.9", sets).version == "1.9"
    assert newest("Demo", "2.0", sets).version == "1.10"
    with pytest.raises(PatchError, match=r"nothing for jax; it has patches of demo"):
        newest("jax", "1", sets)


def test_repacked_wheel_is_a_wheel_of_the_local_version(tmp_path: Path) -> None:
    found = patch_set(tmp_path / "sets")
    wheel = repack(made_wheel(tmp_path), found, tmp_path / "out")
    version = f"1.0+slipway.{content_hash(found)}"
    assert version == local_version(found)
    assert wheel == tmp_path / "out" / f"demo-{version}-py3-none-any.whl"
    assert list((tmp_path / "out").iterdir()) == [wheel]
    with zipfile.ZipFile(wheel) as archive:
        assert archive.namelist() == [
            f"demo-{version}.data/scripts/run-demo",
            "demo/__init__.py",
            "demo/greeting.py",
            "demo/other.py",
            "demo/volume.py",
            f"demo-{version}.dist-info/METADATA",
            f"demo-{version}.dist-info/RECORD",
            f"demo-{version}.dist-info/WHEEL",
        ]
        content = {name: archive.read(name) for name in archive.namelist()}
        modes = {item.filename: oct(item.external_attr >> 16) for item in archive.infolist()}
        assert {item.date_time for item in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    metadata = content[f"demo-{version}.dist-info/METADATA"].decode()
    assert metadata == (
        f"Metadata-Version: 2.1\nName: demo\nVersion: {version}\nSummary: s\n\nVersion: is not a header here\n"
    )
    record = f"demo-{version}.dist-info/RECORD"
    rows = list(csv.reader(io.StringIO(content[record].decode())))
    assert rows[-1] == [record, "", ""]
    assert rows[:-1] == [
        [name, f"sha256={record_hash(content[name])}", str(len(content[name]))]
        for name in sorted(content)
        if name != record
    ]
    assert modes.pop(f"demo-{version}.data/scripts/run-demo") == "0o100755" and set(modes.values()) == {"0o100644"}


def test_repacked_wheel_is_the_same_bytes_wherever_and_whenever_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same files zipped by another tool at another time, another umask and another directory."""
    first = repack(made_wheel(tmp_path / "1"), patch_set(tmp_path / "a"), tmp_path / "out1")
    elsewhere = tmp_path / "2" / "demo-1.0-py3-none-any.whl"
    elsewhere.parent.mkdir()
    with (
        zipfile.ZipFile(tmp_path / "1" / elsewhere.name) as original,
        zipfile.ZipFile(elsewhere, "w", zipfile.ZIP_STORED) as archive,
    ):
        for item in reversed(original.infolist()):
            other = zipfile.ZipInfo(item.filename, (2001, 2, 3, 4, 5, 6))
            other.external_attr = (0o100755 if item.external_attr >> 16 & 0o100 else 0o100666) << 16
            archive.writestr(other, original.read(item))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    before = os.umask(0o077)
    try:
        second = repack(elsewhere, patch_set(tmp_path / "b"), tmp_path / "out2")
    finally:
        os.umask(before)
    assert first.name == second.name and first.read_bytes() == second.read_bytes()


def test_nothing_in_the_repacked_wheel_is_compressed(tmp_path: Path) -> None:
    """zlib and its forks make different bytes of the same file, and a Python can be linked to any of them."""
    wheel = repack(made_wheel(tmp_path), patch_set(tmp_path / "sets"), tmp_path / "out")
    with zipfile.ZipFile(wheel) as archive:
        assert {item.compress_type for item in archive.infolist()} == {zipfile.ZIP_STORED}


def test_uv_installs_the_repacked_wheel_for_the_published_version(tmp_path: Path) -> None:
    """`demo==1.0` of a lock is met by 1.0+slipway.<hash>; the script runs."""
    found = patch_set(tmp_path / "sets")
    repack(made_wheel(tmp_path), found, tmp_path / "out")
    environment = os.environ | {"UV_CACHE_DIR": str(tmp_path / "cache")}
    offline = [str(UV), "pip", "install", "--quiet", "--offline", "--no-index", "--strict"]
    subprocess.run([str(UV), "venv", "--quiet", "--python", sys.executable, str(tmp_path / "env")], check=True)
    python = tmp_path / "env" / "bin" / "python"
    where = ["--find-links", str(tmp_path / "out"), "--python", str(python)]
    subprocess.run([*offline, *where, "demo==1.0"], env=environment, check=True)
    code = "import demo.greeting as g, importlib.metadata as m; print(m.version('demo'), g.greet('Ada'))"
    said = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True).stdout
    assert said == f"{local_version(found)} DEAR ADA\n"
    script = subprocess.run([str(python.parent / "run-demo")], check=True, capture_output=True, text=True)
    assert script.stdout == "runs\n"


def test_repacking_a_drifted_wheel_names_file_and_patch_and_writes_nothing(tmp_path: Path) -> None:
    wheel = made_wheel(tmp_path, FILES | {"demo/other.py": "A = 1\n"})
    with pytest.raises(PatchError, match=r"demo/other\.py is another file than 0003-answer\.patch expects"):
        repack(wheel, patch_set(tmp_path / "sets"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_repacking_another_version_is_refused(tmp_path: Path) -> None:
    wheel = made_wheel(tmp_path, version="1.1")
    with pytest.raises(PatchError, match=r"demo-1\.1-py3-none-any\.whl is not demo 1\.0, which the patches are for"):
        repack(wheel, patch_set(tmp_path / "sets"), tmp_path / "out")


def test_repacking_takes_out_what_a_patch_removes(tmp_path: Path) -> None:
    removal = "--- a/demo/other.py\n+++ /dev/null\n@@ -1,3 +0,0 @@\n-A = 1\n-B = 2\n-C = 3\n"
    directory = tmp_path / "sets" / "demo-1.0"
    directory.mkdir(parents=True)
    (directory / "0001-away.patch").write_text(removal)
    (directory / patches.EXPECTED).write_text(f"{sha256(OTHER)}  demo/other.py\n")
    (found,) = load_all(tmp_path / "sets")
    with zipfile.ZipFile(repack(made_wheel(tmp_path), found, tmp_path / "out")) as archive:
        assert "demo/other.py" not in archive.namelist()
        assert archive.read("demo/greeting.py").decode() == GREETING
        (record,) = (name for name in archive.namelist() if name.endswith("/RECORD"))
        assert b"demo/other.py" not in archive.read(record)


def test_repacking_a_wheel_that_tells_no_version_is_refused(tmp_path: Path) -> None:
    """Whose local version nobody could see."""
    wheel, cut = made_wheel(tmp_path), tmp_path / "cut" / "demo-1.0-py3-none-any.whl"
    cut.parent.mkdir()
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(cut, "w") as archive:
        for item in whole.infolist():
            archive.writestr(item, b"Name: demo\n" if item.filename.endswith("METADATA") else whole.read(item))
    with pytest.raises(PatchError, match=r"demo-1\.0-py3-none-any\.whl: METADATA has no Version line"):
        repack(cut, patch_set(tmp_path / "sets"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package index for pip: a directory. It has a MaxText without the patched code, newer than any patch set."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    info = "maxtext-99.0.dist-info"
    with zipfile.ZipFile(tmp_path / "maxtext-99.0-py3-none-any.whl", "w") as archive:
        for path in maxtext_patches().files:
            archive.writestr(path, "# rewritten\n")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: maxtext\nVersion: 99.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    return tmp_path


def maxtext_patches() -> PatchSet:
    return newest("maxtext", "0", load_all())


@pytest.mark.parametrize("argument", ["maxtext==99.0", "{index}/maxtext-99.0-py3-none-any.whl"])
def test_command_says_a_line_per_patch_and_fails_on_drift(argument: str, index: Path) -> None:
    done = CliRunner().invoke(app, ["patches", "check", argument.format(index=index)])
    expected = [f"{patch.name}: drifted ({', '.join(patch.files)})" for patch in maxtext_patches().patches]
    assert done.output.splitlines() == expected
    assert done.exit_code == 1


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("no such package", "error: 'no such package' is neither <package>==<version> nor a .whl file"),
        ("missing.whl", "error: missing.whl cannot be read as a wheel: "),
        ("maxtext==98.0", "error: pip cannot download maxtext==98.0: ERROR: No matching distribution found"),
    ],
)
@pytest.mark.usefixtures("index")
def test_command_says_what_it_cannot_read(argument: str, message: str) -> None:
    done = CliRunner().invoke(app, ["patches", "check", argument])
    assert done.exit_code == 2
    assert done.stderr.startswith(message)


def test_our_patches_come_with_the_hash_of_each_file_they_change() -> None:
    """Loading refuses anything else; the patches of MaxText are those of the version that hosts install."""
    found = maxtext_patches()
    lock = (patches.ROOT / "training" / "uv.lock").read_text()
    assert f'name = "maxtext"\nversion = "{found.version}"\n' in lock
    assert found.expected.keys() == {path for patch in found.patches for path in patch.changes}


def test_every_patch_has_its_entry_in_the_readme() -> None:
    readme = (patches.PATCHES / "README.md").read_text()
    for found in load_all():
        for patch in found.patches:
            assert f"### {patch.name.removesuffix('.patch')}\n" in readme
