"""The root of an emulated host, with the kernel's own mounts: what is seen there, and who may write where."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from infra.emulators.tpu_hosts import accounts, view
from infra.emulators.tpu_hosts.image import Image
from infra.emulators.tpu_hosts.view import SharedDirectory


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("image")
    view.make_image(directory)
    return directory


class Rooted:
    """One host's disk, and commands on it."""

    def __init__(self, directory: Path, programs: Path, shared: Sequence[SharedDirectory]) -> None:
        self.image, self._programs, self._shared = Image(directory, has_root=True), programs, shared
        self.image.make()

    def run(self, script: str, user: str = "root") -> str:
        """What it printed."""
        account = accounts.account(self.image.directory, user)
        assert account
        inside = ["chroot", f"--userspec={account.uid}:{account.gid}", str(self.image.directory)]
        command = view.with_root(self.image.directory, self._programs, self._shared, [*inside, "bash", "-euc", script])
        unshared = ["unshare", "--mount", "--propagation", "private", *command]
        done = subprocess.run(unshared, env=self.image.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def rooted(tmp_path: Path, programs: Path) -> Rooted:
    (tmp_path / "runs").mkdir()
    return Rooted(tmp_path / "host", programs, [SharedDirectory(tmp_path / "runs", is_writable=True)])


def test_its_disk_is_its_root_and_programs_are_nobodys_to_change(rooted: Rooted, programs: Path) -> None:
    said = rooted.run(
        f"""
        echo of the host >/root/file
        ls -d {programs} {Path(__file__).parent} 2>/dev/null || echo nothing of the machine
        touch /usr/bin/more 2>/dev/null || echo read-only
        echo 1 >/dev/null; ls /dev/fd/0 /run
        """
    )
    assert said == "nothing of the machine\nread-only\n/dev/fd/0\n\n/run:\n"
    assert (rooted.image.directory / "root/file").read_text() == "of the host\n"
    assert not list((rooted.image.directory / "usr/bin").iterdir()), "mounts are the host's alone"


def test_accounts_are_made_by_its_own_useradd(rooted: Rooted) -> None:
    rooted.run("useradd --system --home-dir /var/lib/a --shell /usr/sbin/nologin a; useradd --groups nogroup b")
    made = accounts.account(rooted.image.directory, "a")
    assert made and (made.home, made.shell) == ("/var/lib/a", "/usr/sbin/nologin")
    assert rooted.run("id -un; touch /tmp/mine; touch /root/mine 2>/dev/null || echo refused", "a") == "a\nrefused\n"
    other = accounts.account(rooted.image.directory, "b")
    assert other and set(other.groups) == {other.gid, 65534}
    assert accounts.account(rooted.image.directory, "c") is None


def test_every_account_writes_in_a_shared_directory_whoever_made_what_is_in_it(rooted: Rooted, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    subprocess.run(["mkdir", runs / "before"], check=True, umask=0o022)
    view.open_to_all(runs)
    subprocess.run(["mkdir", runs / "after"], check=True, umask=0o022)
    subprocess.run(["touch", runs / "after" / "file"], check=True, umask=0o022)
    rooted.run(f"cd {runs}; for directory in before after; do echo it >>$directory/file; done", "nobody")
    assert [(runs / name / "file").read_text() for name in ("before", "after")] == ["it\n", "it\n"]


def test_systemctl_of_a_host_without_an_init_says_so(rooted: Rooted) -> None:
    said = rooted.run("systemctl is-active any 2>&1 || echo failed")
    assert said == "System has not been booted with systemd as init system\nfailed\n"


def test_what_enters_it_is_the_account_and_its_groups(rooted: Rooted) -> None:
    nobody = accounts.account(rooted.image.directory, "nobody")
    assert nobody
    command, enter = ["bash", "-c", "id -u; id -G; umask; pwd"], partial(view.enter, Path("/"), nobody)
    assert subprocess.check_output(command, preexec_fn=enter, text=True) == "65534\n65534\n0022\n/\n"
