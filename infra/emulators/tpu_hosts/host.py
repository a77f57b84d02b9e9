"""One emulated host: its disk, its metadata server, and its processes, from power on to power off.

Owns what the host is told (its environment, the metadata of its platform) and the end of all that it runs. Refuses to
own when it starts and ends (fleet.py), and what it does meanwhile (init.py).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from infra.emulators.http_server import HttpEmulator
from infra.emulators.metadata_server import MetadataServer
from infra.emulators.tpu_hosts.identity import HostIdentity
from infra.emulators.tpu_hosts.image import Image
from infra.emulators.tpu_hosts.init import LABEL, end_all
from infra.emulators.tpu_hosts.network import METADATA, Cable, as_host, names_text
from infra.emulators.tpu_hosts.view import SharedDirectory, with_root
from infra.paths import ROOT

POWER_OFF_S = 30.0  # from the notice of a preemption to its end, as Compute Engine gives


type Publish = Callable[[HostIdentity, str, str, str | None], None]


@dataclass(frozen=True)
class CloudAccess:
    """What a host has of its cloud. `endpoints`: variables that name its services. `servers`: those to be reached.

    `publish` hears of its guest attributes: namespace, key and value, None where one was deleted.
    """

    token: str
    endpoints: Mapping[str, str]
    servers: Sequence[HttpEmulator]
    publish: Publish
    cable: Cable | None = None  # to a network of its own; else it has this machine's
    root: HostRoot | None = None  # for a root of its own, which needs a cable; else it has this machine's


@dataclass(frozen=True)
class HostRoot:
    """`image`: programs and libraries, for all hosts. `shared`: what it has of this machine besides."""

    image: Path
    shared: Sequence[SharedDirectory] = ()


class EmulatedHost:
    """It is on from `power_on` until `is_off`."""

    def __init__(self, directory: Path, who: HostIdentity, access: CloudAccess) -> None:
        self.image = Image(directory, has_root=access.root is not None)
        self._who, self.cable = who, access.cable
        publish = partial(access.publish, who)
        server = partial(MetadataServer, token=access.token, email=who.email, publish=publish)
        self.metadata = self.cable.host.do(partial(server, at=(METADATA, 80))) if self.cable else server()
        self.metadata.values |= who.values
        self.metadata.set_attributes(who.attributes)
        self._access = access
        self._init: subprocess.Popen[bytes] | None = None
        self._off_by: float | None = None
        self._listeners: list[Callable[[], None]] = []

    def power_on(self) -> None:
        self.metadata.__enter__()
        if self.cable:
            self._listeners = [self.cable.host.do(server.listen_also) for server in self._access.servers]
        self.image.make()
        self.image.environment_file.write_text(json.dumps(self.environment))
        command = self._command()
        own = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], LABEL: str(self.image.directory)}
        with self.image.init_log.open("ab") as log:
            self._init = subprocess.Popen(
                command,
                cwd=ROOT,
                env=own,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=self.cable.host.enter if self.cable else None,
            )

    def _command(self) -> list[str]:
        command = [sys.executable, "-m", "infra.emulators.tpu_hosts.init", str(self.image.directory)]
        if not self.cable:
            return command
        self.image.names.write_text(names_text(self._who.name, self._who.address))
        if root := self._access.root:
            command = with_root(self.image.directory, root.image, root.shared, [*command, "root"])
        return as_host(self._who.name, self.image.names, command)

    def power_off(self, within_s: float) -> None:
        """Tell it to end; what is left after that time is killed. Returns at once: ask `is_off`."""
        assert self._init
        if self._init.poll() is None:
            self._init.send_signal(signal.SIGTERM)
        self._off_by = time.monotonic() + within_s

    @property
    def is_off(self) -> bool:
        """After `power_off`: whether nothing of it runs any more, which is seen to once its time is over."""
        assert self._init and self._off_by is not None
        if self._init.poll() is None and time.monotonic() < self._off_by:
            return False
        self.kill()
        return True

    def kill(self) -> None:
        """All of it, at once."""
        if self._init:
            self._init.kill()
            self._init.wait()
            assert self._init.stdin
            self._init.stdin.close()
            self._init = None
            end_all(self.image.directory)
            for close in (*self._listeners, self.metadata.close, *((self.cable.close,) if self.cable else ())):
                close()

    def wipe(self) -> None:
        shutil.rmtree(self.image.directory, ignore_errors=True)

    @property
    def environment(self) -> dict[str, str]:
        server = self.metadata.host
        return {
            **self.image.environment,
            **self._access.endpoints,
            "GCE_METADATA_HOST": server,
            "GCE_METADATA_IP": server,  # where google-auth looks whether it is on a VM
            "GCE_METADATA_ROOT": server,  # TensorStore
            LABEL: str(self.image.directory),
        }
