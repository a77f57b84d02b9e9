"""pulumi-resource-slipway: the gRPC server that the Pulumi engine starts, over the resources of this folder.

Owns the protocol: values, diffs, progress lines, cancel, deadlines, errors, and ending with its engine. What a resource
does is in its own module; adding one is a module and a line in registry.py.
"""

# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any, cast

from google.protobuf import any_pb2, empty_pb2, json_format, struct_pb2

from infra import emulated
from infra.artifacts.store import StoreError
from infra.providers import made_at
from infra.providers.input_types import UNKNOWN, Unknown
from infra.providers.proto import (
    engine_pb2,
    engine_pb2_grpc,
    grpc,
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
    status_pb2,
)
from infra.providers.resource import Context, OnChange, Resource, ResourceError

VERSION = "0.1.0"
# The engine's spelling of "not known before the update runs" (sdk/go/common/resource/plugin/rpc.go).
_UNKNOWN_SENTINEL = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_MAX_CALLS = 64
_PARENT_POLL_S = 0.2


def to_values(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Property values as Python ones, whole numbers as int, what is not known yet as UNKNOWN."""
    return {key: _from_wire(value) for key, value in json_format.MessageToDict(struct).items()}


def _from_wire(value: Any) -> Any:
    if isinstance(value, str):
        return UNKNOWN if value == _UNKNOWN_SENTINEL else value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_from_wire(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {key: _from_wire(item) for key, item in cast(dict[str, Any], value).items()}
    return value


def to_struct(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """The way back; values may be unknown at any depth."""
    struct = struct_pb2.Struct()
    struct.update(_to_wire(values))
    return struct


def _to_wire(value: Any) -> Any:
    if isinstance(value, Unknown):
        return _UNKNOWN_SENTINEL
    if isinstance(value, Mapping):
        return {key: _to_wire(item) for key, item in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list):
        return [_to_wire(item) for item in cast(list[Any], value)]
    return value


class ProviderServer(provider_pb2_grpc.ResourceProviderServicer):
    """Speaks the engine's protocol for a table of resources."""

    def __init__(self, resources: Mapping[str, Resource[Any]], engine_address: str) -> None:
        self._resources = resources
        self._cancelled = threading.Event()
        self._said = {emulated.SAID} if os.environ.get(emulated.SAID) else set[str]()
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(engine_address))

    # What the plugin is.

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        return plugin_pb2.PluginInfo(version=VERSION)

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "slipway", "version": VERSION}))

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._engine = engine_pb2_grpc.EngineStub(grpc.insecure_channel(request.address))
        return empty_pb2.Empty()

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ConfigureResponse(acceptSecrets=False, supportsPreview=True, acceptResources=False)

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.InvokeResponse()  # infra/engine/early_provider.py: that we run is the answer

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._cancelled.set()
        return empty_pb2.Empty()

    # One resource.

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        try:
            failures = resource.check(to_values(request.news))
            if not failures:
                self._say_who_answers(resource, to_values(request.news))
        except Exception as error:  # noqa: BLE001 - the border to the engine, as in _errors_told
            failures = [("", self._fault(error, request.urn))]
        return provider_pb2.CheckResponse(
            inputs=request.news,
            failures=[provider_pb2.CheckFailure(property=key, reason=reason) for key, reason in failures],
        )

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        state = to_values(request.olds)
        changes = resource.changes(to_values(request.old_inputs), to_values(request.news), state)
        drifted = resource.drift(state)
        kinds = {
            OnChange.UPDATE: provider_pb2.PropertyDiff.UPDATE,
            OnChange.REPLACE: provider_pb2.PropertyDiff.UPDATE_REPLACE,
        }
        detailed = {key: provider_pb2.PropertyDiff(kind=kinds[kind], inputDiff=True) for key, kind in changes.items()}
        detailed |= {key: provider_pb2.PropertyDiff(kind=provider_pb2.PropertyDiff.UPDATE) for key in drifted}
        replaced = [key for key, kind in changes.items() if kind is OnChange.REPLACE]
        for line in (*resource.reasons(replaced), *resource.remarks(changes, state)):
            self._log(engine_pb2.INFO, line, request.urn, ephemeral=False)
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if detailed else response.DIFF_NONE,
            replaces=replaced,
            deleteBeforeReplace=True,
            diffs=list(detailed),
            detailedDiff=detailed,
            hasDetailedDiff=True,
        )

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        values = to_values(request.properties)
        if request.preview:
            return provider_pb2.CreateResponse(properties=request.properties)
        resource = self._resource(request.urn, context)
        call = self._context(request, resource)
        stamp = made_at.stamp(resource, values)
        with self._errors_told(context, call, values | stamp):
            identifier, outputs = resource.create(call, resource.parse(values))
        return provider_pb2.CreateResponse(
            id=identifier,
            properties=to_struct(values | outputs | stamp),
            refresh_before_update=resource.refresh_before_update,
        )

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        call = self._context(request, resource)
        state = to_values(request.properties)
        self._say_who_answers(resource, state)
        with self._errors_told(context, call, state):
            made_at.check(resource, call, request.id, state)
            outputs = resource.read(call, request.id, state)
        if outputs is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(
            id=request.id,
            properties=to_struct(state | outputs | made_at.stamp(resource, state)),
            inputs=request.inputs,
            refresh_before_update=resource.refresh_before_update,
        )

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        news, olds = to_values(request.news), to_values(request.olds)
        stamp = made_at.stamp(resource, news)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=to_struct(resource.planned(olds, news) | stamp))
        call = self._context(request, resource)
        with self._errors_told(context, call, news | stamp):
            made_at.check(resource, call, request.id, olds)
            call.accept(request.id, {})
            outputs = resource.update(call, request.id, olds, resource.parse(news))
        return provider_pb2.UpdateResponse(
            properties=to_struct(news | outputs | stamp), refresh_before_update=resource.refresh_before_update
        )

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        call = self._context(request, resource)
        # An input that is newer than the last change of the state is in the inputs alone.
        state = to_values(request.old_inputs) | to_values(request.properties)
        self._say_who_answers(resource, state)
        with self._errors_told(context, call, state):
            made_at.check(resource, call, request.id, state)
            resource.delete(call, request.id, state)
        return empty_pb2.Empty()

    # Below: how a call is carried out.

    def _resource(self, urn: str, context: grpc.ServicerContext) -> Resource[Any]:
        token = urn.split("::")[2].split("$")[-1]
        if token not in self._resources:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"'{token}' is not a resource of the slipway provider")
        return self._resources[token]

    def _context(self, request: Any, resource: Resource[Any]) -> Context:
        urn = request.urn
        latest = ""

        def report(message: str) -> None:
            nonlocal latest
            if message != latest:  # the engine counts the seconds itself; piped, each message is a line
                latest = message
                self._log(engine_pb2.INFO, message, urn, ephemeral=True)

        return Context(
            urn=urn,
            deadline=time.monotonic() + (request.timeout or resource.timeout_s),
            cancelled=self._cancelled,
            report=report,
            say=lambda message: self._log(engine_pb2.INFO, message, urn, ephemeral=False),
        )

    def _say_who_answers(self, resource: Resource[Any], values: Mapping[str, Any]) -> None:
        """Warn once of a server in the place of the real service, unless our wrapper has said so (infra/engine/)."""
        service = resource.service(values)
        if service and service.instead and not self._said & {emulated.SAID, service.variable}:
            self._said.add(service.variable)
            notice = f"{service.variable} is {service.instead}: that server answers, not {service.real}"
            self._log(engine_pb2.WARNING, notice, "", ephemeral=False)

    def _log(self, severity: Any, message: str, urn: str, ephemeral: bool) -> None:
        try:
            self._engine.Log(engine_pb2.LogRequest(severity=severity, message=message, urn=urn, ephemeral=ephemeral))
        except grpc.RpcError:
            return  # the engine has stopped listening: it is ending, and so shall we (end_with_engine)

    @contextlib.contextmanager
    def _errors_told(self, context: grpc.ServicerContext, call: Context, inputs: Mapping[str, Any]) -> Generator[None]:
        """An error of one call becomes one sentence, and what was already accepted is kept with its id."""
        try:
            yield
        except (ResourceError, StoreError) as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - the border to the engine: a fault of ours, with its trace in --debug
            reason = self._fault(error, call.urn)
        else:
            return
        if call.accepted is None:
            context.abort(grpc.StatusCode.UNKNOWN, reason)
        identifier, outputs = call.accepted or ("", {})
        detail = provider_pb2.ErrorResourceInitFailed(
            id=identifier, properties=to_struct({**inputs, **outputs}), reasons=[reason], inputs=to_struct(inputs)
        )
        packed = any_pb2.Any()
        packed.Pack(detail)
        status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=reason, details=[packed])
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        context.abort(grpc.StatusCode.UNKNOWN, reason)
        raise AssertionError("abort raises")

    def _fault(self, error: Exception, urn: str) -> str:
        """One sentence for an error in our own code; its traceback goes to --debug."""
        self._log(engine_pb2.DEBUG, "".join(traceback.format_exception(error)), urn, ephemeral=False)
        where = traceback.extract_tb(error.__traceback__)[-1]
        name = Path(where.filename).name
        return f"fault in slipway ({name}:{where.lineno}): {type(error).__name__}: {error}; `--debug` shows the trace"


def end_with_engine(on_end: Callable[[], None]) -> None:
    """Leave as soon as the engine is gone, also after kill -9: a provider that outlives it goes on creating."""
    engine = os.getppid()

    def watch() -> None:
        while os.getppid() == engine:
            time.sleep(_PARENT_POLL_S)
        on_end()
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end-with-engine").start()


def serve(resources: Mapping[str, Resource[Any]], on_end: Callable[[], None]) -> None:
    """Serve until the engine ends us or is gone. The engine's address is the last argument."""
    serve_plugin(ProviderServer(resources, sys.argv[-1] if len(sys.argv) > 1 else ""), on_end)


def serve_plugin(servicer: provider_pb2_grpc.ResourceProviderServicer, on_end: Callable[[], None]) -> None:
    """The same for any provider plugin: its port is the first line, as the engine expects it."""
    end_with_engine(on_end)
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=_MAX_CALLS), options=[("grpc.max_receive_message_length", -1)]
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()
