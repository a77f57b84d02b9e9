"""`slipway emulate`: services that run here instead of in a cloud, for trying things without an account.

Owns the options and what is printed. Refuses to own the services (infra/emulators/).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from infra.commands.terminal import fail
from infra.emulated import GKE, QUESTIONS, STORAGE, TPU, VERTEX
from infra.emulators import emulated_cloud
from infra.emulators.bucket_policies import BucketPolicies
from infra.emulators.cloud_projects import CloudProjects
from infra.emulators.cluster import built_programs, emulated_cluster, nodes
from infra.emulators.cluster.emulated_cluster import EmulatedCluster
from infra.emulators.cluster.gke_api import GkeApi
from infra.emulators.cluster.nodes import NodePool
from infra.emulators.google_apis import GoogleApis
from infra.emulators.object_store import ObjectStore
from infra.emulators.tpu_api import TpuApi
from infra.emulators.tpu_hosts import booted_cloud
from infra.emulators.tpu_hosts.fleet import Fleet
from infra.emulators.vertex_jobs import JobCloud, VertexApi, running_cloud
from infra.host_software.wheels.python_made_here import PythonPackError, archive_name, make_archive
from infra.paths import PYTHONS
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.settings import every

app = typer.Typer(no_args_is_help=True)
_TOKEN = "GOOGLE_OAUTH_ACCESS_TOKEN"  # in the place of one of Google's, with which a cluster of GKE is asked
_GCLOUD_JOBS = "CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM"
_GCLOUD_LOGS = "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING"
_LOOK_S = 0.5  # between looks at the parts of a cluster


@app.callback()
def emulate() -> None:
    """Run a cloud service on this machine, without an account."""


@app.command()
def tpu(
    port: Annotated[int, typer.Option(min=0, max=65532, help="On 127.0.0.1, buckets on the next; 0 takes any.")] = 8470,
    state: Annotated[Path | None, typer.Option(help="Keep the cloud in this file across starts.")] = None,
    speed: Annotated[float, typer.Option(min=0, help="Its clock runs this much faster; 0 stands still.")] = 1,
    boot: Annotated[bool, typer.Option(help="Hosts of accelerators vcpu-N are processes that boot and train.")] = False,
) -> None:
    """The Cloud TPU API, with a page that shows its state, and the buckets of this clone's stacks; Ctrl-C ends it."""
    if state and (state.is_dir() or not state.parent.is_dir()):
        fail(f"{state} cannot hold a state; give a file in a directory that is there")
    if boot:
        os.environ.setdefault(TPU, "http://127.0.0.1")  # else stacks of emulated accelerators are refused
        _pack_python()
    root = Path(f"{state}.buckets") if state else Path(tempfile.mkdtemp())
    stacks = every(CloudTrainingSettings, skip_unusable=True)
    buckets = emulated_cloud.fill(root, stacks)
    try:
        policies = BucketPolicies(Path(f"{state}.policies.json") if state else None)
        emulated_cloud.grant(policies, stacks)
        api = TpuApi(port=port, speed=speed, state=state)
        api.cloud.ledger.hosts_boot = boot
        # At the same place at each start, since a stack's state says at which service its things were made.
        store = ObjectStore(root, buckets, port=port + 1 if port else 0, policies=policies)
        google = GoogleApis(CloudProjects(cloud=api.cloud), port + 3 if port else 0)
    except OSError as error:
        fail(f"port {port} and the three after it cannot be used ({error.strerror}); give another one with --port")
    except (ValueError, KeyError, TypeError) as error:
        fail(f"{state} is not a state of this emulator ({error}); delete it or give another")
    with contextlib.ExitStack() as stack:
        stack.enter_context(store)
        os.environ[STORAGE] = store.url  # hosts that are pretended learn their bundle there
        if not state:
            stack.callback(shutil.rmtree, root)
        if boot:
            hosts = Path(f"{state}.hosts") if state else Path(tempfile.mkdtemp())
            if not state:
                stack.callback(shutil.rmtree, hosts)
            shared = emulated_cloud.shared_directories(stacks)
            booted = stack.enter_context(booted_cloud.boot(api, store, hosts, port + 2 if port else 0, shared=shared))
            said = f"{_own(booted.fleet)}, in {hosts}; secrets: {booted.services.url}"
            typer.echo(f"hosts of vcpu-1, vcpu-2 and vcpu-4 boot, {said}")
        typer.echo(f"TPU API emulator: {api.url} shows its state")
        typer.echo(f"in another shell: export {TPU}={api.url} {STORAGE}={store.url}")
        key = Path(f"{state or root}.key.json")
        stack.enter_context(google)
        google.write_credentials(key)
        stack.callback(key.unlink)
        typer.echo(f"for `slipway doctor` there: export {QUESTIONS}={google.url} GOOGLE_APPLICATION_CREDENTIALS={key}")
        typer.echo("it has the buckets of the stacks that are here now; after `slipway stack new` start it again")
        typer.echo("written from the documentation, never compared with the real service; Ctrl-C ends it")
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs deaf to it
        try:
            api.serve_forever()
        except KeyboardInterrupt:
            api.close()
    typer.echo("ended" + (f"; its state is in {state}, its buckets in {state}.buckets" if state else ""))


@app.command()
def vertex(
    port: Annotated[int, typer.Option(min=0, max=65533, help="On 127.0.0.1, buckets on the next; 0 takes any.")] = 8480,
    speed: Annotated[float, typer.Option(min=0, help="Its clock runs this much faster; 0 stands still.")] = 1,
    run: Annotated[bool, typer.Option(help="Commands of containers run as processes of this machine.")] = False,
) -> None:
    """Custom jobs of Vertex AI, with a page that shows them, and the buckets of this clone's stacks; Ctrl-C ends it."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slipway-vertex-")))
        if run:
            os.environ.setdefault(VERTEX, "http://127.0.0.1")  # else stacks of emulated accelerators are refused
        stacks = every(CloudTrainingSettings, skip_unusable=True)
        policies = BucketPolicies()
        buckets = emulated_cloud.fill(directory / "buckets", stacks)
        emulated_cloud.grant(policies, stacks)
        try:
            store = stack.enter_context(
                ObjectStore(directory / "buckets", buckets, port=port + 1 if port else 0, policies=policies)
            )
            cloud = JobCloud()
            if run:
                homes = running_cloud.replicas(store, directory / "jobs", port + 2 if port else 0)
                cloud = JobCloud(replicas=stack.enter_context(homes))
            api = VertexApi(cloud, port=port, speed=speed)
        except OSError as error:
            fail(f"port {port} and the two after it cannot be used ({error.strerror}); give another one with --port")
        typer.echo(f"Vertex AI emulator: {api.url} shows its jobs, and has their logs as Cloud Logging does")
        typer.echo(f"in another shell: export {VERTEX}={api.url} {STORAGE}={store.url}")
        typer.echo(f"for gcloud, in that shell: export {_GCLOUD_JOBS}={api.url}/ {_GCLOUD_LOGS}={api.url}/")
        what = f"commands of containers run here, in {directory / 'jobs'}" if run else "containers are pretended"
        typer.echo(f"{what}; written from the documentation, never compared with the real service; Ctrl-C ends it")
        for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs deaf to Ctrl-C
            signal.signal(number, signal.default_int_handler)
        try:
            api.serve_forever()
        except KeyboardInterrupt:
            api.close()
    typer.echo("ended")


@app.command()
def cluster(
    pool: Annotated[list[str] | None, typer.Option(help="A pool of the nodes of one slice of this size.")] = None,
    zone: Annotated[str | None, typer.Option(help="Of all pools; else the first that Google documents.")] = None,
    kueue: Annotated[bool, typer.Option(help="With Kueue, which admits what names a queue.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65534, help="Of the API server on 127.0.0.1; 0 takes any.")] = 0,
    state: Annotated[Path | None, typer.Option(help="Keep the cluster in this directory across starts.")] = None,
) -> None:
    """Kubernetes with JobSet and nodes as GKE makes them, on which pods are pretended; Ctrl-C ends it."""
    if state and (state.is_file() or not state.absolute().parent.is_dir()):
        fail(f"{state} cannot hold a state; give a directory that is there, or a new name in one")
    pools = nodes.pools(pool or [], zone)
    built = built_programs.find()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell starts background jobs deaf to Ctrl-C
        signal.signal(number, signal.default_int_handler)
    with contextlib.ExitStack() as stack:
        directory = state or Path(tempfile.mkdtemp(prefix="slipway-cluster-"))
        if not state:
            stack.callback(shutil.rmtree, directory)
        try:
            running = emulated_cluster.run(directory, built, pools, port, keeps=state is not None, kueue=kueue)
            started = stack.enter_context(running)
            _serve(started, stack.enter_context(GkeApi(started, port + 1 if port else 0)), pools)
        except KeyboardInterrupt:
            pass
    typer.echo("ended" + (f"; its state is in {state}" if state else ""))


def _serve(running: EmulatedCluster, api: GkeApi, pools: Sequence[NodePool]) -> None:
    """Says how to use it, then watches until Ctrl-C. Raises ComponentError where a part of it ends."""
    layout = running.layout
    typer.echo(f"Kubernetes emulator: {layout.server}, with the logs of its parts in {layout.log('*').parent}")
    typer.echo("nodes: " + ", ".join(f"{each.nodes} in {each.name}" for each in pools))
    typer.echo(f"in another shell: export KUBECONFIG={layout.kubeconfig}")
    typer.echo(f"there: {layout.programs.path('kubectl')} get nodes --label-columns {nodes.POOL}")
    typer.echo(f"for stacks of GKE: export {GKE}={api.url} {_TOKEN}={api.token}")
    typer.echo("its control plane and JobSet are the real programs; no pod runs on its nodes; Ctrl-C ends it")
    while True:
        running.processes.check()
        time.sleep(_LOOK_S)


def _pack_python() -> None:
    """For hosts, whose image has none; where it cannot be packed `up` fetches the locked release for them."""
    if not (PYTHONS / archive_name()).exists():
        try:
            make_archive(PYTHONS)
        except PythonPackError as error:
            typer.echo(f"hosts get the locked Python: this machine's own cannot be packed ({error})", err=True)


def _own(fleet: Fleet) -> str:
    """What hosts have of their own, which depends on what this user may do here."""
    if fleet.has_roots:
        return "each with a network and a file system of its own"
    if fleet.isolated:
        return "each with a network of its own, all with this machine's programs and this user's account"
    return "all with this machine's network, its programs and this user's account"
