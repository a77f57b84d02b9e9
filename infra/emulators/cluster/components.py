"""The command line of each part of an emulated control plane, and where it says that it is ready.

Owns what each is told: everything listens on 127.0.0.1 alone. Pure. Refuses to own starting and ending (processes.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra.emulators.cluster import api_accounts
from infra.emulators.cluster.api_accounts import ClusterAccount
from infra.emulators.cluster.built_programs import ClusterPrograms, Manifest
from infra.emulators.cluster.certificates import Certificates

HOST = "127.0.0.1"
_SERVICES = "10.0.0.0/20"  # addresses of Services, which nothing answers
_PODS = "10.64.0.1/12"  # addresses that kwok says pods have
_LEASE_S = 40  # of a node, as kubelets have it


@dataclass(frozen=True)
class Ports:
    api: int
    etcd: int
    etcd_peers: int
    scheduler: int
    controllers: int
    jobset: int
    jobset_webhooks: int
    kueue: int
    kueue_webhooks: int
    kwok: int


@dataclass(frozen=True)
class Layout:
    """Where an emulated cluster has its things, and what it has.

    keeps: its things outlive it, so etcd waits for the disk. has_kueue: whether Kueue is one of its controllers.
    """

    directory: Path
    programs: ClusterPrograms
    ports: Ports
    keeps: bool
    has_kueue: bool = False

    @property
    def certificates(self) -> Certificates:
        return Certificates(self.directory / "certificates")

    @property
    def server(self) -> str:
        return f"https://{HOST}:{self.ports.api}"

    @property
    def kubeconfig(self) -> Path:
        return self.config(api_accounts.ADMIN)

    def config(self, account: ClusterAccount) -> Path:
        return self.directory / account.file

    def configuration(self, controller: str) -> Path:
        """The file that it reads at its start."""
        return self.directory / f"{controller}.yaml"

    def log(self, component: str) -> Path:
        return self.directory / "logs" / f"{component}.log"


@dataclass(frozen=True)
class Component:
    """A process. `ready_url` answers 200 once it does its work."""

    name: str
    command: tuple[str, ...]
    ready_url: str


def etcd(layout: Layout) -> Component:
    clients, peers = (f"http://{HOST}:{port}" for port in (layout.ports.etcd, layout.ports.etcd_peers))
    command = (
        str(layout.programs.path("etcd")),
        f"--data-dir={layout.directory / 'etcd'}",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        *(() if layout.keeps else ("--unsafe-no-fsync",)),
    )
    return Component("etcd", command, f"{clients}/health")


def api_server(layout: Layout, tokens: Path) -> Component:
    certificates = layout.certificates
    command = (
        str(layout.programs.path("kube-apiserver")),
        f"--etcd-servers=http://{HOST}:{layout.ports.etcd}",
        *_serving(layout, layout.ports.api),
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates.service_account_key}",
        f"--service-account-signing-key-file={certificates.service_account_key}",
        f"--service-cluster-ip-range={_SERVICES}",
        "--endpoint-reconciler-type=none",  # it would refuse to be a Service at an address of loopback
    )
    return Component("kube-apiserver", command, f"{layout.server}/readyz")


def controllers(layout: Layout) -> Component:
    command = (
        str(layout.programs.path("kube-controller-manager")),
        f"--kubeconfig={layout.config(api_accounts.CONTROLLERS)}",
        *_serving(layout, layout.ports.controllers),
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.certificates.service_account_key}",
        f"--root-ca-file={layout.certificates.authority}",
    )
    return Component("kube-controller-manager", command, f"https://{HOST}:{layout.ports.controllers}/healthz")


def scheduler(layout: Layout) -> Component:
    command = (
        str(layout.programs.path("kube-scheduler")),
        f"--kubeconfig={layout.config(api_accounts.SCHEDULER)}",
        *_serving(layout, layout.ports.scheduler),
        "--leader-elect=false",
    )
    return Component("kube-scheduler", command, f"https://{HOST}:{layout.ports.scheduler}/healthz")


def jobset(layout: Layout) -> Component:
    return _controller(layout, "jobset", layout.config(api_accounts.JOBSET), layout.ports.jobset)


def jobset_configuration(layout: Layout) -> Manifest:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        **_listening(layout, layout.ports.jobset, layout.ports.jobset_webhooks),
        "internalCertManagement": {"enable": False},  # it expects a kubelet to bring them
    }


def kueue(layout: Layout) -> Component:
    return _controller(layout, "kueue", layout.config(api_accounts.KUEUE), layout.ports.kueue)


def kueue_configuration(layout: Layout) -> Manifest:
    """It reads certificates below /etc unless it manages them, and then puts them into webhooks of this name only."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta1",
        "kind": "Configuration",
        "namespace": "kueue-system",
        **_listening(layout, layout.ports.kueue, layout.ports.kueue_webhooks),
        "internalCertManagement": {"enable": True, "webhookServiceName": "no-webhook-service"},
        "integrations": {"frameworks": ["batch/job", "jobset.x-k8s.io/jobset"]},
        "featureGates": {"VisibilityOnDemand": False},  # a server of its own, on every address
    }


def _controller(layout: Layout, name: str, kubeconfig: Path, port: int) -> Component:
    program, configuration = layout.programs.path(name), layout.configuration(name)
    command = (str(program), f"--kubeconfig={kubeconfig}", f"--config={configuration}")
    return Component(name, command, f"http://{HOST}:{port}/readyz")


def _listening(layout: Layout, port: int, webhooks: int) -> Manifest:
    """Of a configuration: what every controller of this kind is told."""
    return {
        "webhook": {"host": HOST, "port": webhooks, "certDir": str(layout.certificates.served)},
        "health": {"healthProbeBindAddress": f"{HOST}:{port}"},
        "metrics": {"bindAddress": "0"},
        "leaderElection": {"leaderElect": False},
    }


def kwok(layout: Layout) -> Component:
    """Keeps every node as if a kubelet ran there, by the Stages of its configuration."""
    command = (
        str(layout.programs.path("kwok")),
        f"--kubeconfig={layout.config(api_accounts.KWOK)}",
        "--manage-all-nodes=true",
        f"--config={layout.configuration('kwok')}",
        f"--node-lease-duration-seconds={_LEASE_S}",
        f"--cidr={_PODS}",
        f"--server-address={HOST}:{layout.ports.kwok}",
    )
    return Component("kwok", command, f"http://{HOST}:{layout.ports.kwok}/healthz")


def _serving(layout: Layout, port: int) -> tuple[str, ...]:
    certificates = layout.certificates
    return (
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={certificates.certificate}",
        f"--tls-private-key-file={certificates.key}",
        "--profiling=false",
    )
