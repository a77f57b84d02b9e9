"""An S3 server that nobody here wrote (versitygw, tools/s3.sh): buckets are directories, objects are files in them.

It checks signatures, regions and rights, as Amazon's does. Two accounts: the operator's, which may do everything, and a
pod's, which may do what `let` says.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
OPERATOR, POD = ("operator-key", "operator-secret"), ("pod-key", "pod-secret/+=")
REGION = "eu-central-1"
_LIMIT_S = 60.0  # which only a server that hangs reaches


@functools.cache
def program() -> str:
    """Built where it is not yet."""
    return subprocess.run([ROOT / "tools" / "s3.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


class S3Server:
    """Below `directory`; ends with its `with` block."""

    def __init__(self, directory: Path) -> None:
        self.buckets, accounts = directory / "buckets", directory / "accounts"
        for folder in (self.buckets, accounts):
            folder.mkdir(parents=True)
        address, admin = f"127.0.0.1:{_free_port()}", f"127.0.0.1:{_free_port()}"
        self.url, self._admin = f"http://{address}", f"http://{admin}"
        key, secret = OPERATOR
        options = ["-p", address, "--admin-port", admin, "-a", key, "-s", secret, "-r", REGION, "--health", "/health"]
        self._log = (directory / "log").open("w+")
        self._process = subprocess.Popen(
            [program(), *options, "--iam-dir", str(accounts), "--iam-cache-disable", "posix", str(self.buckets)],
            stdout=self._log,
            stderr=self._log,
        )

    def __enter__(self) -> S3Server:
        until = time.monotonic() + _LIMIT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                self._log.seek(0)
                raise AssertionError(f"the S3 server does not start: {self._log.read()}")
            time.sleep(0.02)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5):  # noqa: S310 - of this machine
                return True
        except urllib.error.URLError:
            return False

    def environment(self, account: tuple[str, str] = OPERATOR, region: str = REGION) -> dict[str, str]:
        """Of Amazon's clients that ask as this account."""
        return {
            "AWS_ENDPOINT_URL_S3": self.url,
            "AWS_REGION": region,
            "AWS_ACCESS_KEY_ID": account[0],
            "AWS_SECRET_ACCESS_KEY": account[1],
        }

    def make_bucket(self, name: str) -> None:
        """The operator's."""
        (self.buckets / name).mkdir()

    def client(self) -> Any:
        """Amazon's own, as the operator."""
        from botocore import session  # here, because hosts have none

        key, secret = OPERATOR
        return session.get_session().create_client(
            "s3", REGION, endpoint_url=self.url, aws_access_key_id=key, aws_secret_access_key=secret
        )

    def make_pod_account(self) -> None:
        """Without any rights."""
        key, secret = POD
        self._run("create-user", "--access", key, "--secret", secret, "--role", "user")

    def _run(self, command: str, *options: str) -> None:
        key, secret = OPERATOR
        asked = [program(), "admin", "-a", key, "-s", secret, "-er", self._admin, "-r", REGION, command, *options]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 0, done.stdout + done.stderr


def policy(bucket: str, *actions: str) -> str:
    """Of a bucket: what the pod's account may do there."""
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": [POD[0]]},
        "Action": list(actions),
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
