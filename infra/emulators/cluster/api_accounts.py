"""Who may talk to the API server of an emulated cluster: the person who started it, and each component as itself.

Owns the tokens and the kubeconfigs that hold them. Refuses to own what an account may do: that is RBAC's, with the
roles that Kubernetes has from its start and those that JobSet, Kueue and kwok publish.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import yaml

CONTEXT = "slipway-emulated"


@dataclass(frozen=True)
class ClusterAccount:
    """A user of the API server. `file`: of its kubeconfig."""

    user: str
    file: str
    groups: tuple[str, ...] = ()


def service_account(namespace: str, name: str, file: str) -> ClusterAccount:
    """What a component is that runs as a pod elsewhere."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return ClusterAccount(f"system:serviceaccount:{namespace}:{name}", file, groups)


ADMIN = ClusterAccount("admin", "kubeconfig", ("system:masters",))
CONTROLLERS = ClusterAccount("system:kube-controller-manager", "controllers.kubeconfig")
SCHEDULER = ClusterAccount("system:kube-scheduler", "scheduler.kubeconfig")
JOBSET = service_account("jobset-system", "jobset-controller-manager", "jobset.kubeconfig")
KUEUE = service_account("kueue-system", "kueue-controller-manager", "kueue.kubeconfig")
KWOK = service_account("kube-system", "kwok-controller", "kwok.kubeconfig")
EVERY = (ADMIN, CONTROLLERS, SCHEDULER, JOBSET, KUEUE, KWOK)


def write(directory: Path, server: str, authority: Path) -> Path:
    """A kubeconfig of each account, with a token made for this start; returns the file of tokens for the server."""
    rows: list[str] = []
    for account in EVERY:
        token = secrets.token_urlsafe(32)
        rows.append(f'{token},{account.user},{account.user},"{",".join(account.groups)}"')
        _write_private(directory / account.file, yaml.safe_dump(_kubeconfig(account, token, server, authority)))
    tokens = directory / "tokens.csv"
    _write_private(tokens, "\n".join(rows) + "\n")
    return tokens


def _kubeconfig(account: ClusterAccount, token: str, server: str, authority: Path) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": account.user, "user": {"token": token}}],
        "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": account.user}}],
        "current-context": CONTEXT,
    }


def _write_private(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
