"""An archive of this machine's own CPython 3.12, for hosts, where the locked release cannot be reached.

Owns what goes in: the interpreter, its standard library, and every library that it loads besides glibc, with run paths
relative to where they lie, so that it runs from any directory of a machine that has nothing but glibc. Its layout is
the release's (`python/bin/python3.12`), and its name says `made-here`: it is never taken for the release.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from infra.host_software.wheels import elf
from infra.host_software.wheels.pythons import MADE_HERE
from infra.host_software.wheels.selection import GLIBC_MINOR

_MARK = "MADE_HERE"
# What no training imports: tests, programs with windows, pip; packages are the wheelhouse's business.
_LEFT_OUT = ("test", "tests", "idlelib", "turtledemo", "tkinter", "ensurepip", "site-packages", "__pycache__")
# Deprecated or with windows; their libraries are many, or want a newer glibc than TPU VM images have.
_LEFT_OUT_MODULES = re.compile(r"(_tkinter|nis|_crypt|_?xx.*|_test.*|_ctypes_test)\.cpython-.*\.so")
_GLIBC = re.compile(r"(ld-linux-x86-64|linux-vdso|lib(c|m|dl|rt|pthread|util|resolv|anl))\.so(\.[0-9]+)?")
_LIBRARY = re.compile(r"^\s*(\S+) => (\S+) \(0x", re.MULTILINE)
_CHECK = """
import importlib, pathlib, re, sys, sysconfig
home = pathlib.Path(sys.prefix)
for path in pathlib.Path(sysconfig.get_path("platstdlib"), "lib-dynload").glob("*.so"):
    importlib.import_module(path.name.partition(".")[0])
for path in sorted(set(re.findall(r" (/\\S+\\.so[.0-9]*)$", pathlib.Path("/proc/self/maps").read_text(), re.M))):
    if not pathlib.Path(path).is_relative_to(home):
        print(pathlib.Path(path).name)
"""


class PythonPackError(RuntimeError):
    """This machine's Python cannot be packed for hosts; one sentence that says why and what to do."""


def archive_name() -> str:
    version = ".".join(map(str, sys.version_info[:3]))
    return f"cpython-{version}+{MADE_HERE}-x86_64-unknown-linux-gnu-install_only.tar.gz"


def make_archive(directory: Path, glibc_minor: int = GLIBC_MINOR) -> Path:
    """Packs the interpreter that runs this into `directory`, anew; returns the archive. Raises PythonPackError.

    The same Python gives the same bytes. glibc_minor: hosts have glibc 2.<that>.
    """
    base = Path(sys.base_prefix)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.resolve()) as name:  # the kernel names files without links
        tree = Path(name) / "python"
        _lay_out(base, tree)
        _bring_libraries(base, tree, glibc_minor)
        _check(tree)
        partial = pack_python(tree, Path(name) / "archive")
        return partial.replace(directory / archive_name())


def _lay_out(base: Path, tree: Path) -> None:
    """Interpreter, standard library and headers, which a compiler at run time (Triton) needs."""
    (tree / "bin").mkdir(parents=True)
    interpreter = base / "bin" / "python3.12"
    if not interpreter.is_file():
        raise PythonPackError(f"{base} has no bin/python3.12; run this with a CPython 3.12")
    shutil.copy(interpreter, tree / "bin")
    for link in ("python3", "python"):
        (tree / "bin" / link).symlink_to("python3.12")
    shutil.copytree(base / "lib" / "python3.12", tree / "lib" / "python3.12", symlinks=True, ignore=_left_out)
    headers = base / "include" / "python3.12"
    if headers.is_dir():
        shutil.copytree(headers, tree / "include" / "python3.12")
    (tree / _MARK).write_text(f"{archive_name()}: this machine's Python, packed by `slipway wheels python`\n")


def _left_out(directory: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name in _LEFT_OUT
        or name.startswith("config-3.12")
        or (directory.endswith("lib-dynload") and _LEFT_OUT_MODULES.fullmatch(name))
    }


def _programs(tree: Path) -> Iterator[Path]:
    yield tree / "bin" / "python3.12"
    yield from sorted((tree / "lib" / "python3.12" / "lib-dynload").glob("*.so"))
    yield from sorted(path for path in (tree / "lib").glob("*.so*") if path.is_file())


def _bring_libraries(base: Path, tree: Path, glibc_minor: int) -> None:
    """Copies every library beside libpython and points all run paths there."""
    for soname, path in _libraries(_programs(tree)):
        shutil.copy(path, tree / "lib" / soname)
    for program in _programs(tree):
        if elf.run_path(program) is not None:
            to_libraries = os.path.relpath(tree / "lib", program.parent)
            try:
                elf.set_run_path(program, "$ORIGIN" if to_libraries == "." else f"$ORIGIN/{to_libraries}")
            except elf.RunPathError as error:
                raise PythonPackError(f"{base} cannot be moved: {error}") from None
        if (minor := elf.glibc_minor(program)) > glibc_minor:
            raise PythonPackError(
                f"{program.name} needs glibc 2.{minor}, hosts have 2.{glibc_minor}; run this on an older Linux "
                f"(Ubuntu 22.04, Debian 12)"
            )


def _libraries(programs: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """What programs load besides glibc: the name that they ask for, and the file that has it on this machine."""
    command = ["ldd", *map(str, programs)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C"} | _path())
    for soname, path in sorted(set(_LIBRARY.findall(done.stdout))):
        if not _GLIBC.fullmatch(soname):
            yield soname, path


def _path() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath)}


def _check(tree: Path) -> None:
    """Every module of the moved Python loads, with nothing from outside but glibc."""
    command = [str(tree / "bin" / "python3.12"), "-I", "-B", "-c", _CHECK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_path())
    if done.returncode:
        raise PythonPackError(f"the packed Python does not run: {done.stderr.strip().splitlines()[-1]}")
    if strange := [name for name in done.stdout.split() if not _GLIBC.fullmatch(name)]:
        raise PythonPackError(
            f"the packed Python still loads {', '.join(strange)} of this machine; run this with a Python that has its "
            f"own run path (pyenv's, uv's)"
        )


def pack_python(directory: Path, archive: Path) -> Path:
    """A Python installation as `python/...` in a tar.gz whose bytes depend on nothing but its files."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name.endswith((".pyc", "/__pycache__")):
            return None
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    with (
        archive.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0, filename="") as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.add(directory, arcname="python", recursive=False, filter=plain)
        for path in sorted(directory.rglob("*")):
            tar.add(path, arcname=f"python/{path.relative_to(directory)}", recursive=False, filter=plain)
    return archive
