"""Replicas as processes of this machine: each has a home of its own, what Vertex AI sets, and an account's token.

| of a container on Vertex AI | here |
|---|---|
| its image | a name; what it runs by itself is what `images` says of it, its programs are this machine's |
| its file system | this machine's, and a home of its own below `directory`, which is empty at each start |
| its network, the names of other replicas | this machine's loopback, a port each |
| its user, root | this user |
| /gcs/BUCKET | none |
| the metadata server | one for each job, by GCE_METADATA_HOST |

Owns their start and end and reads what they print. Refuses to own what their ends mean (job_cloud.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.emulators.metadata_server import MetadataServer
from infra.emulators.vertex_jobs import container
from infra.emulators.vertex_jobs.container_command import ImageConfig, argv
from infra.emulators.vertex_jobs.job_records import EmulatedJob, Replica
from infra.emulators.vertex_jobs.replica_environment import service_variables
from infra.paths import ROOT

GRACE_S = 30.0  # from SIGTERM to SIGKILL: that of pods, no page says Vertex AI's
_END_S = 30.0  # of real time for a container to end all that it runs


@dataclass
class _Container:
    directory: Path
    process: subprocess.Popen[bytes]
    read: dict[str, int] = field(default_factory=dict[str, int])  # how much of each of its logs

    @property
    def exit_code(self) -> int | None:
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def begin_end(self) -> None:
        """It ends all that it runs once nobody holds its stdin."""
        assert self.process.stdin
        self.process.stdin.close()

    def finish_end(self) -> None:
        try:
            ended = self.process.wait(_END_S) >= 0
        except subprocess.TimeoutExpired:
            self.process.kill()
            ended = False
        if not ended:
            self.process.wait()
            container.end_all(self.directory)


@dataclass
class _RunningJob:
    metadata: MetadataServer
    addresses: Mapping[str, str]
    containers: dict[str, _Container] = field(default_factory=dict[str, _Container])


@dataclass
class ReplicaProcesses:
    """`endpoints`: variables by which containers find their cloud's services. `tokens`: whose each token is, by token.

    `print_line` gets what replicas print: job, replica, severity, line.
    """

    directory: Path
    endpoints: Mapping[str, str] = field(default_factory=dict[str, str])
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    images: dict[str, ImageConfig] = field(default_factory=dict[str, ImageConfig])
    grace_s: float = GRACE_S
    print_line: Callable[[EmulatedJob, str, str, str], None] = lambda job, replica, severity, line: None
    _jobs: dict[str, _RunningJob] = field(default_factory=dict[str, _RunningJob])

    def start(self, job: EmulatedJob) -> None:
        self._forget(job)
        token = f"token-{secrets.token_hex(8)}"
        metadata = MetadataServer(token, email=account(job))
        metadata.values |= _machine(job)
        self.tokens[token] = metadata.email
        metadata.__enter__()
        addresses = dict(zip((replica.name for replica in job.replicas), _addresses(len(job.replicas)), strict=True))
        running = self._jobs[job.name] = _RunningJob(metadata, addresses)
        for replica in job.replicas:
            running.containers[replica.name] = self._start(job, replica, running)

    def exits(self, job: EmulatedJob) -> Mapping[str, int]:
        self._collect(job)
        codes = {name: each.exit_code for name, each in self._containers(job).items()}
        return {name: code for name, code in codes.items() if code is not None}

    def stop(self, job: EmulatedJob) -> None:
        for each in self._containers(job).values():
            if each.exit_code is None:
                each.process.send_signal(signal.SIGTERM)

    def are_gone(self, job: EmulatedJob) -> bool:
        if len(self.exits(job)) < len(self._containers(job)):
            return False
        self._forget(job)
        return True

    def restart(self, job: EmulatedJob, replica: Replica) -> None:
        running = self._jobs[job.name]
        _end_all([running.containers[replica.name]])
        self._collect(job)
        running.containers[replica.name] = self._start(job, replica, running)

    def close(self) -> None:
        for name in list(self._jobs):
            self._end(self._jobs.pop(name))

    # --- parts ---

    def _containers(self, job: EmulatedJob) -> Mapping[str, _Container]:
        running = self._jobs.get(job.name)
        return running.containers if running else {}

    def _forget(self, job: EmulatedJob) -> None:
        running = self._jobs.pop(job.name, None)
        if running:
            self._end(running)

    def _end(self, running: _RunningJob) -> None:
        _end_all(running.containers.values())
        running.metadata.close()
        self.tokens.pop(running.metadata.token, None)

    def _start(self, job: EmulatedJob, replica: Replica, running: _RunningJob) -> _Container:
        directory = self.directory / job.id / replica.name
        shutil.rmtree(directory, ignore_errors=True)
        home = directory / "home"
        home.mkdir(parents=True)
        spec = job.message.job_spec.worker_pool_specs[replica.pool].container_spec
        image = self.images.get(spec.image_uri, ImageConfig())
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            **dict(image.environment),
            **{variable.name: variable.value for variable in spec.env},
            **service_variables(job, replica, running.addresses),
            **self.endpoints,
            "GCE_METADATA_HOST": running.metadata.host,
            "GCE_METADATA_IP": running.metadata.host,  # where google-auth looks whether it is on a VM
            "GCE_METADATA_ROOT": running.metadata.host,  # TensorStore
        }
        words = argv(image, list(spec.command), list(spec.args), environment) or ["no-command-and-no-image"]
        written = {"argv": words, "environment": environment, "cwd": str(home), "grace_s": self.grace_s}
        (directory / container.SPEC).write_text(json.dumps(written))
        process = subprocess.Popen(
            [sys.executable, "-P", str(container.__file__), str(directory)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        return _Container(directory, process)

    def _collect(self, job: EmulatedJob) -> None:
        """Whole lines that replicas have printed since the last time; the rest of one that has ended, too."""
        for name, each in self._containers(job).items():
            ended = each.exit_code is not None
            for file, severity in ((container.OUT, "INFO"), (container.ERRORS, "ERROR")):
                for line in _new_lines(each, file, ended):
                    self.print_line(job, name, severity, line)


def _end_all(containers: Iterable[_Container]) -> None:
    containers = list(containers)
    for each in containers:
        each.begin_end()
    for each in containers:
        each.finish_end()


def account(job: EmulatedJob) -> str:
    """Whose token its containers get: Vertex AI's agent for custom code where the job names none."""
    agent = f"service-{job.region.project}@gcp-sa-aiplatform-cc.iam.gserviceaccount.com"
    return job.message.job_spec.service_account or agent


def _machine(job: EmulatedJob) -> dict[str, str]:
    return {
        "project/project-id": job.project,
        "project/numeric-project-id": job.region.project,
        "instance/zone": f"projects/{job.region.project}/zones/{job.region.name}-a",
    }


def _addresses(count: int) -> list[str]:
    """Of this machine, with ports that nobody listens at now, nor at the next of each: on Vertex AI all are free."""
    ports = set[int]()
    while len(ports) < count:
        port = random.SystemRandom().randrange(20000, 30000, 2)  # below those that the kernel takes
        with contextlib.suppress(OSError), socket.create_server(("", port)), socket.create_server(("", port + 1)):
            ports.add(port)
    return [f"127.0.0.1:{port}" for port in ports]


def _new_lines(each: _Container, file: str, ended: bool) -> list[str]:
    path = each.directory / file
    if not path.exists():
        return []
    with path.open("rb") as log:
        log.seek(each.read.get(file, 0))
        content = log.read()
    if not ended:
        content = content[: content.rfind(b"\n") + 1]
    each.read[file] = each.read.get(file, 0) + len(content)
    return content.decode(errors="replace").splitlines()
