"""One service of an emulated host: started, watched, started again, stopped, as its unit says.

Owns its processes, which a variable of their environment tells from others as a control group does, whose account they
are, and what they write, which goes to the journal. Refuses to own what a unit means (unit_file.py) and who asks
(init.py). Standard library and psutil only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import resource
import signal
import time
import uuid
from collections.abc import Mapping
from functools import partial

import psutil

from infra.emulators.tpu_hosts import accounts, view
from infra.emulators.tpu_hosts.accounts import HostAccount
from infra.emulators.tpu_hosts.image import Image
from infra.emulators.tpu_hosts.journal import Journal
from infra.emulators.tpu_hosts.unit_file import Unit, UnitCommand, parse
from infra.emulators.tpu_hosts.unit_words import UnitError
from infra.labelled_processes import labelled

_INVOCATION = "INVOCATION_ID"  # systemd gives each start one
_WARNING, _ERROR = 4, 3


class ServiceError(Exception):
    """What systemctl says; the message is one line."""


class BootedService:
    """Of the host with disk `image`; `environment` is what each of its processes has besides the unit's own."""

    def __init__(self, name: str, image: Image, environment: Mapping[str, str], journal: Journal) -> None:
        self.name = name
        self._file, self._image = image.units / name, image
        self._environment, self._journal = environment, journal
        self._unit = self._read()
        self._starts: list[float] = []
        self._invocation = ""
        self._copies = set[asyncio.Task[None]]()  # a task that nobody holds may vanish
        self._main: asyncio.subprocess.Process | None = None
        self._life: asyncio.Task[None] | None = None
        self._told_to_stop = asyncio.Event()

    @property
    def is_active(self) -> bool:
        return self._life is not None and not self._life.done()

    def reload(self) -> None:
        """What its next start and stop obey."""
        self._unit = self._read()

    async def start(self) -> None:
        """Returns once its main process is there. Raises ServiceError where a command before it fails."""
        if self.is_active:
            return
        self._told_to_stop.clear()
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(started))
        await started

    async def stop(self) -> None:
        """Its processes, as KillMode says; those that are left after TimeoutStopSec are killed."""
        self._told_to_stop.set()
        life, main, unit = self._life, self._main, self._unit
        if main and main.returncode is None:
            if unit.kill_mode == "control-group":
                self._signal_all(signal.SIGTERM)
            elif unit.kill_mode != "none":
                main.send_signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(main.wait(), unit.stop_timeout_s)
        if life:
            if unit.kill_mode in ("control-group", "mixed"):
                self._signal_all(signal.SIGKILL)
            elif main and main.returncode is None and unit.kill_mode == "process":
                main.kill()
            await life

    def _read(self) -> Unit:
        try:
            unit = parse(self._file.read_text())
        except FileNotFoundError:
            raise ServiceError(f"Unit {self.name} not found.") from None
        except UnitError as error:
            raise ServiceError(f"Unit {self.name} has a bad unit file setting: {error}") from None
        for key in unit.ignored:
            self._say(f"{self._file.name}: {key}= is not honoured by this emulated host", _WARNING)
        return unit

    async def _live(self, started: asyncio.Future[None]) -> None:
        """From one start to the end that is no start again."""
        while True:
            unit, now = self._unit, time.monotonic()
            if unit.is_started_too_often([now - start for start in self._starts]):
                self._refuse(started, f"{self.name}: Start request repeated too quickly.")
                return
            self._starts = [*self._starts[-20:], now]
            self._invocation = uuid.uuid4().hex
            code = await self._run(unit, started)
            if unit.kill_mode in ("control-group", "mixed"):
                self._signal_all(signal.SIGKILL)
            if self._told_to_stop.is_set():
                self._say(f"Stopped {self.name}.")
                if not started.done():
                    self._refuse(started, f"Job for {self.name} canceled.")
                return
            self._say(f"{self.name}: Main process exited, status={code}", _ERROR if code else 6)
            if not unit.starts_again(code):
                if not started.done():
                    self._refuse(started, f"Job for {self.name} failed: a command before it has failed.")
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told_to_stop.wait(), unit.restart_s)
                return
            self._say(f"{self.name}: Scheduled restart job.")

    async def _run(self, unit: Unit, started: asyncio.Future[None]) -> int:
        """The commands before it and its main process; returns the exit code that counts."""
        for command in unit.before:
            process = await self._spawn(unit, command)
            code = await process.wait()
            if code and not command.may_fail:
                return code
        self._main = await self._spawn(unit, unit.main)
        self._say(f"Started {self.name}.")
        if not started.done():
            started.set_result(None)
        code = await self._main.wait()
        return 0 if unit.main.may_fail else code

    async def _spawn(self, unit: Unit, command: UnitCommand) -> asyncio.subprocess.Process:
        output, write = os.pipe()
        await self._follow(output)
        user = "root" if command.as_root or not unit.user else unit.user
        try:
            account = self._account(user)
            own = _variables(user, account) | dict(unit.environment) | {_INVOCATION: self._invocation}
            environment = {**self._environment, **own}
            return await asyncio.create_subprocess_exec(
                command.words[0],
                *command.arguments(environment),
                env=environment,
                cwd="/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write,
                stderr=write,
                start_new_session=True,
                preexec_fn=partial(_become, unit, self._image, account),
            )
        except OSError as error:
            os.write(write, f"{command.words[0]}: {error.strerror}\n".encode())
            return await _ended(203)  # as systemd's EXIT_EXEC
        except LookupError as error:
            os.write(write, f"{error}\n".encode())
            return await _ended(217)  # EXIT_USER
        finally:
            os.close(write)

    def _account(self, user: str) -> HostAccount | None:
        """None where it stays this user. Raises LookupError for one that the host does not have."""
        if self._image.has_root:
            if not (account := accounts.account(self._image.directory, user)):
                raise LookupError(f"{self.name}: Failed to determine user credentials: there is no account {user}")
            return account
        if user not in ("root", pwd.getpwuid(os.getuid()).pw_name):
            self._say(f"{self.name}: User={user} is no account of this machine; its processes are yours", _WARNING)
        return None

    async def _follow(self, output: int) -> None:
        """Each line into the journal, until all that write there have ended."""
        reader = asyncio.StreamReader(limit=1 << 20)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(output, "rb"))

        async def copy() -> None:
            async for line in reader:
                self._journal.write(self._unit.journal, self.name, line.decode(errors="replace").rstrip("\n"))

        self._copies.add(task := asyncio.create_task(copy()))
        task.add_done_callback(self._copies.discard)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in labelled(_INVOCATION, lambda value: value == self._invocation):
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)

    def _refuse(self, started: asyncio.Future[None], why: str) -> None:
        self._say(why, _ERROR)
        if not started.done():
            started.set_exception(ServiceError(why))

    def _say(self, message: str, priority: int = 6) -> None:
        self._journal.write("", self.name, message, priority)


def _variables(user: str, account: HostAccount | None) -> dict[str, str]:
    """What systemd tells of the account."""
    known = {"HOME": account.home, "SHELL": account.shell} if account else {}
    return {"USER": user, "LOGNAME": user} | known


async def _ended(code: int) -> asyncio.subprocess.Process:
    """What never began, as a process that has ended."""
    return await asyncio.create_subprocess_exec("/bin/sh", "-c", f"exit {code}")


def _become(unit: Unit, image: Image, account: HostAccount | None) -> None:
    """In the child. Limits first, which are root's to raise; more than the machine gives is left at what it gives."""
    for name, value in unit.limits:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(getattr(resource, name), (value, value))
    if account:
        view.enter(image.directory, account)
