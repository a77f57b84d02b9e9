"""The Python of hosts that have none: what is locked, where it is fetched, and which archives hosts could use."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from infra.commands.main import app
from infra.host_software.wheels import elf, python_lock
from infra.host_software.wheels.locks import LockError, bootstrap_lock
from infra.host_software.wheels.python_made_here import PythonPackError, make_archive
from infra.host_software.wheels.pythons import (
    LOCKED,
    MIRROR,
    RELEASES,
    LockedPython,
    host_python,
    lock_path,
    locked_python,
)
from infra.host_software.wheels.selection import locked_files
from infra.paths import UV
from tests.python_archive import AARCH64, NAME, header, python_archive
from training.data.hash_cache import HashCache


def training(tmp_path: Path, python: LockedPython) -> Path:
    """A training directory with a lock of a Python."""
    lock = lock_path(tmp_path)
    lock.parent.mkdir(parents=True)
    lock.write_text(python_lock.text(python, "uv-1.0.tar.gz", "list.json"))
    return tmp_path


def build(patch: int, **more: Any) -> dict[str, Any]:
    name = f"cpython-3.12.{patch}%2B20260101-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
    url = f"{RELEASES}/20260101/{name}"
    return {"major": 3, "minor": 12, "patch": patch, "url": url, "sha256": f"{patch:064x}", "build": "20260101"} | more


class TestLock:
    @pytest.mark.parametrize("mirror", ["", "https://mirror.example/pythons"])
    def test_it_is_the_release_that_the_locked_uv_would_install(self, mirror: str) -> None:
        """`make lock` was run after the last change of uv, and uv itself takes it from the same mirror."""
        command = [UV, "python", "list", "--no-config", "--offline", "--only-downloads", "--show-urls"]
        done = subprocess.run(
            [*command, "--output-format", "json", "cpython-3.12-linux-x86_64-gnu"],
            env=os.environ | {MIRROR: mirror or RELEASES},
            capture_output=True,
            check=True,
        )
        (newest,) = json.loads(done.stdout)
        locked = locked_python()
        assert (newest["version"], newest["url"]) == (locked.version, locked.url_to_fetch({MIRROR: mirror}))
        (uv,) = locked_files(bootstrap_lock())
        assert f"uv-{uv.version}.tar.gz" in lock_path().read_text()
        assert re.fullmatch("[0-9a-f]{64}", locked.sha256)

    def test_newest_of_the_plain_builds_is_taken(self, tmp_path: Path) -> None:
        newest = python_lock.newest(
            {
                "cpython-3.12.9-linux-x86_64-gnu": build(9),
                "cpython-3.12.16-linux-x86_64-gnu": build(16),
                "cpython-3.12.17+debug-linux-x86_64-gnu": build(17),
                "cpython-3.12.17-linux-x86_64_v3-gnu": build(17),
                "cpython-3.12.17-linux-aarch64-gnu": build(17),
                "cpython-3.13.1-linux-x86_64-gnu": build(1, minor=13),
            }
        )
        assert newest == LockedPython("3.12.16", "20260101", build(16)["url"], f"{16:064x}")
        assert locked_python(training(tmp_path, newest)) == newest
        with pytest.raises(LockError, match=r"names no CPython 3\.12 for x86_64-unknown-linux-gnu; lock another uv"):
            python_lock.newest({"cpython-3.12.17-linux-aarch64-gnu": build(17)})

    def test_it_is_read_in_the_source_of_uv(self, tmp_path: Path) -> None:
        sdist = tmp_path / "uv-1.0.tar.gz"
        for member, found in (("uv-1.0/crates/x/download-metadata.json", True), ("uv-1.0/README", False)):
            with tarfile.open(sdist, "w:gz") as archive:
                info = tarfile.TarInfo(member)
                info.size = 2
                archive.addfile(info, io.BytesIO(b"{}"))
            if found:
                assert python_lock.metadata_in(sdist) == ("crates/x/download-metadata.json", {})
                continue
            with pytest.raises(LockError, match=r"uv-1\.0\.tar\.gz has no download-metadata\.json"):
                python_lock.metadata_in(sdist)
        assert python_lock.source_of_uv().name.startswith("uv-")

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (None, "there is no training/locks/python.toml, so hosts without Python 3.12 could not start"),
            ("[python]\n", "training/locks/python.toml cannot be used (KeyError: 'version')"),
            ("python = ", "training/locks/python.toml cannot be used (TOMLDecodeError: "),
        ],
    )
    def test_without_it_the_command_that_writes_it_is_named(self, tmp_path: Path, text: str | None, said: str) -> None:
        (tmp_path / "locks").mkdir()
        if text is not None:
            lock_path(tmp_path).write_text(text)
        with pytest.raises(LockError, match=re.escape(said)) as caught:
            host_python(LOCKED, HashCache(None), tmp_path, tmp_path)
        assert str(caught.value).endswith("; make it with: make lock")


class TestGiven:
    def test_an_archive_of_ones_own_is_said_to_be_no_release(self, tmp_path: Path) -> None:
        archive = python_archive(tmp_path)
        python = host_python(archive.name, HashCache(None), tmp_path)
        assert (python.name, python.path) == (NAME, archive)
        assert str(python) == (
            f"{NAME} (sha256 {python.sha256[:12]}), which is not the locked release ({locked_python()})"
        )

    def test_the_locked_file_is_the_release_whatever_it_is_called(self, tmp_path: Path) -> None:
        archive = python_archive(tmp_path).rename(tmp_path / "a download (1).tar.gz")
        sha256 = hashlib.sha256(archive.read_bytes()).hexdigest()
        made = training(tmp_path / "training", LockedPython("3.12.9", "20260101", build(9)["url"], sha256))
        given = host_python(archive.name, HashCache(None), tmp_path, made)
        fetched = host_python(LOCKED, HashCache(None), tmp_path, made)
        assert (given.name, given.sha256, str(given)) == (fetched.name, fetched.sha256, str(fetched))
        assert (given.path, fetched.path) == (archive, None)

    @pytest.mark.parametrize(
        ("archive", "said"),
        [
            ({"interpreter": header(AARCH64)}, f"{NAME} is for another machine (aarch64)"),
            ({"interpreter": header(9)}, f"{NAME} is for another machine (machine 9)"),
            ({"interpreter": b"#!/bin/sh\n"}, f"{NAME} is for another machine (no ELF program)"),
            ({"member": "python/install/bin/python3.12"}, f"{NAME} holds no python/bin/python3.12"),
            ({"name": "a python.tar.gz"}, "a python.tar.gz is not named like an archive that hosts can fetch"),
        ],
    )
    def test_one_that_hosts_cannot_use_is_refused(self, tmp_path: Path, archive: dict[str, Any], said: str) -> None:
        given = python_archive(tmp_path, **archive)
        with pytest.raises(LockError, match=re.escape(f"python_archive {said}")) as caught:
            host_python(given.name, HashCache(None), tmp_path)
        assert str(caught.value).endswith(f", or `locked` ({locked_python()})")

    @pytest.mark.parametrize("content", [b"", b"no archive", python_archive])
    def test_one_that_is_cut_short_is_refused(self, tmp_path: Path, content: Any) -> None:
        given = tmp_path / NAME
        given.write_bytes(content if isinstance(content, bytes) else content(tmp_path).read_bytes()[:60])
        with pytest.raises(LockError, match=r" is no tar\.gz that can be read \("):
            host_python(given.name, HashCache(None), tmp_path)

    def test_what_is_no_file_is_said(self, tmp_path: Path) -> None:
        with pytest.raises(LockError, match="python_archive is 'fetch', which is no file; give one, or `locked`"):
            host_python("fetch", HashCache(None), tmp_path)


class TestElf:
    """Of the interpreter that runs this; tests/engine/test_host_without_python.py moves one for real."""

    PROGRAM = Path(sys.executable).resolve()

    def test_machine_and_glibc_of_a_real_program(self) -> None:
        with self.PROGRAM.open("rb") as stream:
            assert elf.machine(stream.read(elf.HEADER_BYTES)) == os.uname().machine
        _, version = os.confstr("CS_GNU_LIBC_VERSION").split()  # type: ignore[union-attr]
        assert 2 <= elf.glibc_minor(self.PROGRAM) <= int(version.split(".")[1])

    def test_a_run_path_that_does_not_fit_is_refused_and_nothing_is_written(self, tmp_path: Path) -> None:
        program = tmp_path / "program"
        program.write_bytes(self.PROGRAM.read_bytes())
        with pytest.raises(elf.RunPathError, match=r"program has the run path '.*', which 'x{4000}' does not fit in"):
            elf.set_run_path(program, "x" * 4000)
        assert program.read_bytes() == self.PROGRAM.read_bytes()

    @pytest.mark.parametrize("content", [b"", b"#!/bin/sh\n", header()])
    def test_what_is_no_program_has_nothing(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "x"
        path.write_bytes(content)
        assert (elf.run_path(path), elf.glibc_minor(path)) == (None, 0)


class TestMadeHere:
    """What cannot be packed; tests/engine/test_host_without_python.py boots with what can."""

    def test_a_python_that_wants_a_newer_glibc_than_hosts_have_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(PythonPackError, match=r" needs glibc 2\.\d+, hosts have 2\.1; run this on an older Linux"):
            make_archive(tmp_path, glibc_minor=1)
        assert list(tmp_path.iterdir()) == []

    def test_what_is_no_python_is_one_sentence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "base_prefix", "/nowhere")
        done = CliRunner().invoke(app, ["wheels", "python", "--out", str(tmp_path)])
        assert done.exit_code == 2
        assert done.stderr == "error: /nowhere has no bin/python3.12; run this with a CPython 3.12\n"
