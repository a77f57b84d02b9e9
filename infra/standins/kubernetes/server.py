"""The engine's protocol for any kind of Kubernetes object: check, plan, and do what the plan says.

Owns: property values on the wire, settings, what of this program was seen so far, errors as one sentence. Refuses to
own what a change means (changes.py) and what is done with an object (objects.py).
"""
# pyright: reportUnknownMemberType=false
# ruff: noqa: N802 - the protocol's method names

from __future__ import annotations

import contextlib
import json
import threading
import time
import traceback
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

from google.protobuf import empty_pb2

from infra.providers.proto import (
    engine_pb2,
    engine_pb2_grpc,
    grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
)
from infra.providers.resource import Context, ResourceError
from infra.providers.server import to_struct, to_values
from infra.standins.kubernetes import answers, changes, kubeconfig, manifests, objects, official, settings
from infra.standins.kubernetes.api_server import ApiServer
from infra.standins.kubernetes.kubeconfig import UnreachableError
from infra.standins.kubernetes.manifests import Fields
from infra.standins.kubernetes.objects import KubernetesObject, Ownership, Planned, TakenError

_TIMEOUT_S = 600.0  # the official plugin's
_TAKES, _MANAGER = "pulumi.com/patchForce", "pulumi.com/patchFieldManager"


class KubernetesServer(provider_pb2_grpc.ResourceProviderServicer):
    """environment: where settings and the kubeconfig fall back to."""

    def __init__(self, environment: Mapping[str, str], engine_address: str) -> None:
        self._environment = environment
        self._cancelled = threading.Event()
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(engine_address))
        self._lock = threading.Lock()
        self._settings = settings.parse({}, environment)
        self._api: ApiServer | None = None
        self._planned = Planned()
        self._in_state = set[str]()

    # What the plugin is.

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=official.STAND_IN_VERSION)

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "kubernetes", "version": official.VERSION}))

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(request.address))
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._cancelled.set()
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Where the cluster is known, it has to answer: once, and not for each of its resources."""
        values = to_values(request.news)
        failures = settings.problems(values, self._environment)
        wanted = settings.parse(values, self._environment)
        if wanted.is_known and not wanted.delete_unreachable and not failures:
            try:
                ApiServer(kubeconfig.find(wanted, self._environment)).version()
            except ResourceError as error:
                failures.append(("", str(error)))
        return provider_pb2.CheckResponse(inputs=request.news, failures=answers.failures(failures))

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Another cluster in the kubeconfig of the settings is another provider, whose resources are made anew.

        To the official plugin the surroundings' kubeconfig counts for nothing here.
        """
        old, new = to_values(request.olds), to_values(request.news)
        changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
        of_cluster = [key for key in changed if key in ("kubeconfig", "context", "cluster")]
        unknown = not settings.parse(new, {}).is_known
        replaced = of_cluster if unknown or self._is_another_cluster(old, new) else []
        response = provider_pb2.DiffResponse
        return response(changes=response.DIFF_SOME if changed else response.DIFF_NONE, diffs=changed, replaces=replaced)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        with self._lock:
            self._settings, self._api = settings.parse(to_values(request.args), self._environment), None
        return provider_pb2.ConfigureResponse(acceptSecrets=False, supportsPreview=True, acceptResources=False)

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        context.abort(
            grpc.StatusCode.UNIMPLEMENTED,
            f"'{request.tok}' is not offered by the stand-in for the kubernetes plugin; install the official one:"
            f" pulumi plugin install resource kubernetes {official.VERSION}",
        )

    # One resource.

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        manifest: Fields = manifests.without_nulls(to_values(request.news))
        problems = list(manifests.problems(request.urn, manifest))
        if not problems and self._settings.is_known:
            try:
                manifest = self._placed(manifest)
            except ResourceError as error:
                problems.append(str(error))
            with self._lock:
                self._planned = self._planned.with_manifest(manifest)
        return provider_pb2.CheckResponse(
            inputs=to_struct(manifest), failures=answers.failures(("", each) for each in problems)
        )

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        state, new = to_values(request.olds), to_values(request.news)
        old, live = manifests.inputs_of(state), manifests.live_of(state)
        with self._lock:
            self._in_state.add(request.urn)
        replacing = changes.replacing_fields(manifests.spelled(new), new, self._settings.mutable)
        found = changes.changes(old, live, new, replacing)
        found = [each for each in found if not any(changes.is_in(each.path, one) for one in request.ignoreChanges)]
        if found and not any(each.replaces for each in found) and self._settings.is_known:
            with self._errors_told(request.urn, context):
                found = changes.with_replaced(found, self._immutable(new, state))
        return answers.difference(found, same_place=manifests.identifier(new) == manifests.identifier(live))

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        manifest = to_values(request.properties)
        if request.preview and not self._settings.is_known:
            return provider_pb2.CreateResponse(properties=request.properties)
        owner = self._owner(manifest, {})
        with self._errors_told(request.urn, context):
            thing = KubernetesObject.of(self._server(), manifest)
            if request.preview:
                made = self._tried(request.urn, thing, manifest, owner)
                return provider_pb2.CreateResponse(properties=to_struct(made))
            live = thing.create(self._call(request), manifest, owner)
            outputs = manifests.kept(manifest, live, owner.manager)
            return provider_pb2.CreateResponse(id=manifests.identifier(live), properties=to_struct(outputs))

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        state, inputs = to_values(request.properties), to_values(request.inputs)
        with self._errors_told(request.urn, context):
            live = None
            with self._forgotten_where_unreachable():
                live = self._identified(request, inputs or manifests.live_of(state)).read()
        if live is None:
            return provider_pb2.ReadResponse()
        found = changes.pruned(live, inputs) if inputs else manifests.imported(live)
        manager = manifests.manager_of(state) or objects.new_manager()
        outputs = manifests.kept(found, live, manager, state)
        return provider_pb2.ReadResponse(id=request.id, properties=to_struct(outputs), inputs=to_struct(found))

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        state, new = to_values(request.olds), to_values(request.news)
        if request.preview and not self._settings.is_known:
            return provider_pb2.UpdateResponse(properties=request.news)
        owner = self._owner(new, state)
        with self._errors_told(request.urn, context):
            thing = KubernetesObject.of(self._server(), new)
            if request.preview:
                made, refusal = thing.try_update(new, owner)
                if refusal:
                    raise objects.refused(str(thing), refusal)
                return provider_pb2.UpdateResponse(properties=to_struct(manifests.of_a_dry_run(made) if made else new))
            live = thing.update(new, owner)
            outputs = manifests.kept(new, live, owner.manager, state)
            return provider_pb2.UpdateResponse(properties=to_struct(outputs))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        state = to_values(request.properties)
        with self._errors_told(request.urn, context), self._forgotten_where_unreachable():
            thing = self._identified(request, manifests.live_of(state))
            thing.delete(self._call(request), manifests.inputs_of(state))
        return empty_pb2.Empty()

    # Below: how a call is carried out.

    def _server(self) -> ApiServer:
        """Raises ResourceError where the kubeconfig leads nowhere."""
        with self._lock:
            if self._api is None:
                self._api = ApiServer(kubeconfig.find(self._settings, self._environment))
            return self._api

    def _is_another_cluster(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        if not (old.get("kubeconfig") and new.get("kubeconfig")):
            return False
        try:
            before, after = (kubeconfig.find(settings.parse(each, {}), {}) for each in (old, new))
        except ResourceError:
            return False  # said when the new settings are checked
        return dict(before.cluster) != dict(after.cluster)

    def _placed(self, manifest: Fields) -> Fields:
        """With the namespace that it gets where it names none; of a kind that is not known, it has one."""
        if not self._settings.is_known or manifests.metadata(manifest).get("namespace"):
            return manifest
        server = self._server()
        kind = server.served(manifests.spelled(manifest))
        return manifests.with_namespace(manifest, server.namespace if kind is None or kind.namespaced else "")

    def _identified(self, request: Any, manifest: Fields) -> KubernetesObject:
        """By the id, which an import gives alone."""
        sort = manifests.spelled(manifest) if manifest.get("kind") else manifests.sort_of(request.urn)
        if sort is None:
            raise ResourceError(f"'{request.urn}' names no kind of Kubernetes")
        return KubernetesObject(self._server(), sort, *manifests.place_of(request.id))

    def _tried(self, urn: str, thing: KubernetesObject, manifest: Fields, owner: Ownership) -> Fields:
        """What a preview says of a create: what the API server would make of it, or the inputs."""
        try:
            made = thing.try_create(manifest, owner, self._planned)
        except TakenError:
            # What is there and in the state is deleted first; all else of the new one has passed by now.
            if urn not in self._in_state:
                raise
            made = None
        return manifests.of_a_dry_run(made) if made else manifest

    def _immutable(self, new: Fields, state: Fields) -> tuple[str, ...]:
        """Fields of which the API server says, tried, that they cannot change."""
        thing = KubernetesObject.of(self._server(), new)
        _, refusal = thing.try_update(new, self._owner(new, state))
        if refusal is None or not refusal.says_immutable():
            return ()  # what else is refused, the update says
        return refusal.immutable_fields() or ("",)

    def _owner(self, manifest: Fields, state: Fields) -> Ownership:
        """state: empty of what is made anew, which gets a manager of its own."""
        manager = manifests.annotation(manifest, _MANAGER) or manifests.manager_of(state) or objects.new_manager()
        force = self._settings.force or manifests.annotation(manifest, _TAKES) == "true"
        return Ownership(manager, self._settings.takes_existing, force)

    def _call(self, request: Any) -> Context:
        latest = ""  # what stands on the resource's row

        def report(message: str) -> None:
            nonlocal latest
            if message != latest:
                latest = message
                self._log(engine_pb2.INFO, message, request.urn, ephemeral=True)

        return Context(
            urn=request.urn,
            deadline=time.monotonic() + (request.timeout or _TIMEOUT_S),
            cancelled=self._cancelled,
            report=report,
            say=lambda message: self._log(engine_pb2.INFO, message, request.urn, ephemeral=False),
        )

    def _log(self, severity: Any, message: str, urn: str, ephemeral: bool) -> None:
        try:
            self._engine.Log(engine_pb2.LogRequest(severity=severity, message=message, urn=urn, ephemeral=ephemeral))
        except grpc.RpcError:
            return  # the engine has stopped listening: it is ending, and so shall we

    @contextlib.contextmanager
    def _forgotten_where_unreachable(self) -> Generator[None]:
        """Of a cluster that is gone for good, where the settings say so."""
        try:
            yield
        except UnreachableError as error:
            if not self._settings.delete_unreachable:
                advice = "if the cluster is gone for good, PULUMI_K8S_DELETE_UNREACHABLE=true forgets what was in it"
                raise UnreachableError(f"{error}; {advice}") from None

    @contextlib.contextmanager
    def _errors_told(self, urn: str, context: grpc.ServicerContext) -> Generator[None]:
        """Ends the call with one sentence."""
        try:
            yield
        except ResourceError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - the border to the engine: a fault of ours, its trace in --debug
            self._log(engine_pb2.DEBUG, "".join(traceback.format_exception(error)), urn, ephemeral=False)
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            reason = f"fault in the stand-in ({place}): {type(error).__name__}: {error}; `--debug` shows the trace"
        else:
            return
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
