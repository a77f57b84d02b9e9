"""The first process of an emulated host: runs the startup script that its metadata server has, and its services.

    python -m infra.emulators.tpu_hosts.init DIRECTORY [root]

DIRECTORY is the host's own, with what it was told (host.py); `root`: what the host runs has it as its root (view.py),
which this process has not. Owns the boot, the services by name, and what systemctl answers. Told to end (SIGTERM) it
stops the services in order; where whoever started it is gone (its standard input ends), it kills all that the host has.
Standard library and psutil only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from infra.emulators.tpu_hosts import accounts, journal_reader, programs, view
from infra.emulators.tpu_hosts.image import Image
from infra.emulators.tpu_hosts.journal import Journal
from infra.emulators.tpu_hosts.programs import RefusedProgramError
from infra.emulators.tpu_hosts.service import BootedService, ServiceError
from infra.labelled_processes import labelled

LABEL = "SLIPWAY_EMULATED_HOST"  # in the environment of all that a host runs: its directory
_SCRIPT = "instance/attributes/startup-script"
_PAUSE_S = 1.0


class Init:
    """One boot of the host with this disk."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.environment: dict[str, str] = json.loads(self.image.environment_file.read_text())
        self.journal = Journal(self.image.journal)
        self.services = dict[str, BootedService]()

    async def run(self) -> None:
        """Until it is told to end."""
        ends = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, ends.set)
        answers = {"systemctl": self._systemctl, "journalctl": partial(journal_reader.read, self.image.journal)}
        server = await programs.serve(self.image.directory, answers)
        watching = [asyncio.create_task(each) for each in (self._boot(), self._watch_owner())]
        await ends.wait()
        server.close()
        watching[0].cancel()
        await asyncio.gather(*(service.stop() for service in self.services.values()))

    async def _boot(self) -> None:
        """As Google's guest agent does: what the metadata says now, in a file, by the interpreter that it names."""
        for enabled in sorted(self.image.enabled.glob("*.service")):
            with contextlib.suppress(ServiceError):  # in its journal; a boot goes on
                await self._service(enabled.name).start()
        script = await asyncio.to_thread(self._script)
        self.image.startup_script.write_text(script)
        enter = partial(view.enter, self.image.directory, accounts.ROOT_ACCOUNT)
        with self.image.startup_log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *("bash", str(self.image.seen(self.image.startup_script))),
                env={**self.environment, "HOME": str(self.image.seen(self.image.root_home))},
                cwd="/",
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=enter if self.image.has_root else None,
            )
        code = await process.wait()
        self.journal.write("", "google-startup-scripts.service", f"startup-script exit status {code}")

    def _script(self) -> str:
        """From the metadata server, however late it answers; empty where there is none."""
        url = f"http://{self.environment['GCE_METADATA_HOST']}/computeMetadata/v1/{_SCRIPT}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            try:
                with opener.open(urllib.request.Request(url, headers={"Metadata-Flavor": "Google"}), timeout=10) as got:
                    return got.read().decode()
            except urllib.error.HTTPError as error:
                if error.code == 404:
                    return ""
            except OSError:  # it may come later
                pass
            time.sleep(_PAUSE_S)

    async def _watch_owner(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        await reader.read()
        end_all(self.image.directory)
        os._exit(1)

    # --- systemctl ---

    async def _systemctl(self, arguments: list[str]) -> AsyncIterator[str]:
        try:
            said = await self._obey(arguments)
        except ServiceError as error:
            raise RefusedProgramError(str(error)) from None
        if said:
            yield said

    async def _obey(self, arguments: Sequence[str]) -> str:
        words = [word for word in arguments if not word.startswith("-")]
        verb, names = (words[0], [_full(word) for word in words[1:]]) if words else ("", [])
        if verb == "daemon-reload":
            for service in self.services.values():
                with contextlib.suppress(ServiceError):  # its file is gone; what runs goes on
                    service.reload()
            return ""
        if verb in ("enable", "disable"):
            return self._enable(names, verb == "enable")
        if verb == "is-active":
            states = ["active" if self._is_active(name) else "inactive" for name in names]
            if "active" not in states:
                raise ServiceError("\n".join(states))
            return "\n".join(states)
        if verb not in _VERBS:
            raise ServiceError(f"Unknown command verb {verb!r} (of this emulated host's systemctl).")
        services = [self._service(name) for name in names]
        done = await asyncio.gather(*map(_VERBS[verb], services), return_exceptions=True)
        if failed := [str(error) for error in done if isinstance(error, Exception)]:
            raise ServiceError("\n".join(failed))
        return ""

    def _is_active(self, name: str) -> bool:
        return name in self.services and self.services[name].is_active

    def _service(self, name: str) -> BootedService:
        if name not in self.services:
            self.services[name] = BootedService(name, self.image, self.environment, self.journal)
        return self.services[name]

    def _enable(self, names: Sequence[str], enabled: bool) -> str:
        """Known by a link as systemd's; whatever is enabled starts at boot before the startup script."""
        for name in names:
            if not (self.image.units / name).exists():
                raise ServiceError(
                    f"Failed to {'enable' if enabled else 'disable'} unit: Unit file {name} does not exist."
                )
            link = self.image.enabled / name
            if enabled:
                link.parent.mkdir(exist_ok=True)
                link.unlink(missing_ok=True)
                link.symlink_to(self.image.seen(self.image.units / name))
            else:
                link.unlink(missing_ok=True)
        return ""


async def _restart(service: BootedService) -> None:
    await service.stop()
    service.reload()
    await service.start()


_VERBS: dict[str, Callable[[BootedService], Awaitable[Any]]] = {
    "start": lambda service: service.start(),
    "stop": lambda service: service.stop(),
    "restart": _restart,
}


def _full(name: str) -> str:
    return name if "." in name else f"{name}.service"


def end_all(directory: Path, but: Sequence[int] = ()) -> None:
    """Kill all that the host in `directory` runs, whatever it has started."""
    own = {os.getpid(), *but}
    while left := [each for each in labelled(LABEL, lambda value: value == str(directory)) if each.pid not in own]:
        for process in left:
            with contextlib.suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(left, timeout=5)


if __name__ == "__main__":
    asyncio.run(Init(Image(Path(sys.argv[1]), has_root=sys.argv[2:] == ["root"])).run())
