"""As whom the API server is asked: what a kubeconfig's user entry gives for a request.

Owns tokens, certificates, and the program that a cloud's kubeconfig names for them (gke-gcloud-auth-plugin, aws eks
get-token). Refuses to keep a login longer than this process.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from infra.standins.kubernetes.kubeconfig import ClusterAccess, UnreachableError

_PROGRAM_S = 120.0
_INFORMATION = "KUBERNETES_EXEC_INFO"
_OF_CLUSTER = ("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority-data", "proxy-url")


@dataclass(frozen=True)
class Login:
    """headers: of every request. certificate, key: PEM of the client, empty where it has none."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    certificate: str = ""
    key: str = ""


def obtain(access: ClusterAccess) -> Login:
    """Runs the login program where the kubeconfig names one. Raises UnreachableError."""
    user = access.user
    if "auth-provider" in user:
        raise UnreachableError(
            f"context '{access.context}' logs in by an auth-provider, which Kubernetes has removed; make it anew,"
            f" as your cloud says how a cluster's kubeconfig is written"
        )
    if user.get("exec"):
        return _of_program(cast(dict[str, Any], user["exec"]), access)
    headers = _impersonation(user)
    token = str(user.get("token") or "") or (_read(str(user["tokenFile"])).strip() if user.get("tokenFile") else "")
    if token:
        headers["Authorization"] = f"Bearer {token}"
    elif user.get("username"):
        pair = base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()
        headers["Authorization"] = f"Basic {pair}"
    return Login(headers, text_of(user, "client-certificate"), text_of(user, "client-key"))


def text_of(entry: Mapping[str, Any], key: str) -> str:
    """PEM, given as data or as a file; empty where it is not given."""
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(str(data)).decode()
    return _read(str(entry[key])) if entry.get(key) else ""


def _impersonation(user: Mapping[str, Any]) -> dict[str, str]:
    return {"Impersonate-User": str(user["as"])} if user.get("as") else {}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UnreachableError(f"the kubeconfig names {path}, which cannot be read: {error.strerror}") from None


def _of_program(program: dict[str, Any], access: ClusterAccess) -> Login:
    command = str(program.get("command", ""))
    if "/" in command:
        command = str(access.directory / command)
    added = {str(each["name"]): str(each["value"]) for each in cast(list[dict[str, Any]], program.get("env") or [])}
    try:
        done = subprocess.run(
            [command, *(str(each) for each in cast(list[Any], program.get("args") or []))],
            env={**os.environ, **added, _INFORMATION: json.dumps(_information(program, access))},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROGRAM_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        hint = str(program.get("installHint") or "")
        raise UnreachableError(
            f"context '{access.context}' logs in by {command}, which does not run: {error}"
            + (f"; {' '.join(hint.split())}" if hint else "")
        ) from None
    if done.returncode:
        last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise UnreachableError(f"context '{access.context}' logs in by {command}, which failed: {last}")
    try:
        status = cast(dict[str, Any], json.loads(done.stdout)["status"])
    except (ValueError, KeyError, TypeError):
        raise UnreachableError(
            f"context '{access.context}' logs in by {command}, which printed no credential"
        ) from None
    headers = _impersonation(access.user)
    if status.get("token"):
        headers["Authorization"] = f"Bearer {status['token']}"
    return Login(headers, str(status.get("clientCertificateData", "")), str(status.get("clientKeyData", "")))


def _information(program: dict[str, Any], access: ClusterAccess) -> dict[str, Any]:
    """What the program is told of whom it logs in to (client.authentication.k8s.io, ExecCredential)."""
    spec: dict[str, Any] = {"interactive": False}
    if program.get("provideClusterInfo"):
        spec["cluster"] = {key: access.cluster[key] for key in _OF_CLUSTER if key in access.cluster}
    version = str(program.get("apiVersion", "client.authentication.k8s.io/v1"))
    return {"apiVersion": version, "kind": "ExecCredential", "spec": spec}
