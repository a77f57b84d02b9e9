"""The engine's protocol for any gcp resource type: check, plan, and make as files.

Owns: property values on the wire, names that the program left out, previews. What a type takes is in schema.py, what is
refused in rules.py and, of making alone, in preconditions.py, ids in kinds.py, what a change means in differences.py,
outputs in outputs.py, files in store.py, what is made in emulators too in emulated_world.py, what Google's plugin
writes into a state beyond the program in defaults.py and state_form.py.
"""
# pyright: reportUnknownMemberType=false
# ruff: noqa: N802 - the protocol's method names

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from google.protobuf import empty_pb2

from infra.providers.proto import grpc, plugin_pb2, provider_pb2, provider_pb2_grpc
from infra.providers.resource import ResourceError
from infra.providers.server import to_struct, to_values
from infra.standins.field_changes import detailed
from infra.standins.gcp import (
    defaults,
    differences,
    gke,
    gke_refusals,
    kinds,
    outputs,
    preconditions,
    provider_fields,
    rules,
    schema,
    state_form,
)
from infra.standins.gcp.defaults import FILLED_IN
from infra.standins.gcp.emulated_world import EmulatedWorld
from infra.standins.gcp.making import Making
from infra.standins.gcp.store import StandInStore

# Environment variables that stand for a setting of the provider (its documentation, Configuration Reference).
_ENVIRONMENT = {
    "project": ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT"),
    "region": ("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION"),
    "zone": ("GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE"),
    "accessToken": ("GOOGLE_OAUTH_ACCESS_TOKEN",),
    "billingProject": ("GOOGLE_BILLING_PROJECT",),
    "userProjectOverride": ("USER_PROJECT_OVERRIDE",),
}
_CLIENT_CONFIG = "gcp:organizations/getClientConfig:getClientConfig"


class Server(provider_pb2_grpc.ResourceProviderServicer):
    """directory: where things are made, or None. environment: what the provider's settings fall back to."""

    def __init__(self, environment: Mapping[str, str], directory: str | None) -> None:
        self._version = schema.version()
        self.store = StandInStore(directory, self._version)
        self._emulated = EmulatedWorld(environment)
        self._settings = {
            key: next((environment[name] for name in names if environment.get(name)), "")
            for key, names in _ENVIRONMENT.items()
        }

    # What the plugin is.

    def Handshake(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request: Any, context: grpc.ServicerContext) -> Any:
        # so that no clone takes another's for Google's
        return plugin_pb2.PluginInfo(version=f"{self._version}+stand-in")

    def GetSchema(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.GetSchemaResponse(schema=json.dumps({"name": "gcp", "version": self._version}))

    def Attach(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()

    def Cancel(self, request: Any, context: grpc.ServicerContext) -> Any:
        return empty_pb2.Empty()  # no call takes longer than nodes of an emulated pool

    def CheckConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        known = {**schema.provider_fields(), "version": schema.Field(schema.Anything(), False)}
        unknown = rules.unknown_keys(known, to_values(request.news), "", "the gcp provider")
        return provider_pb2.CheckResponse(inputs=request.news, failures=_failures(unknown, "gcp"))

    def DiffConfig(self, request: Any, context: grpc.ServicerContext) -> Any:
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)

    def Configure(self, request: Any, context: grpc.ServicerContext) -> Any:
        settings = to_values(request.args)
        self._settings |= {key: str(value) for key in self._settings if (value := settings.get(key))}
        return provider_pb2.ConfigureResponse(acceptSecrets=False, supportsPreview=True, acceptResources=False)

    # One resource.

    def Check(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        news, old = to_values(request.news), to_values(request.olds)
        inputs = {key: value for key, value in news.items() if value is not None and key != FILLED_IN}
        problems = rules.problems(resource, inputs, self._settings["project"])
        name = resource.inputs.get("name")
        filled: list[str] = []
        if name is not None and not name.required and "name" not in inputs and "namePrefix" not in inputs:
            filled.append("name")
            inputs["name"] = old.get("name") or _name(request.urn, request.randomSeed)
        excluded = rules.conflicting(resource.args, inputs)
        kept = defaults.carried_over(old, inputs | {FILLED_IN: filled}, excluded)
        checked = defaults.filled_in(resource.inputs, provider_fields.of(_token(request.urn)), kept, excluded)
        failures = _failures(problems, request.urn.split("::")[-1])
        return provider_pb2.CheckResponse(inputs=to_struct(checked), failures=failures)

    def Diff(self, request: Any, context: grpc.ServicerContext) -> Any:
        token, resource = _token(request.urn), self._resource(request.urn, context)
        old, new, made = to_values(request.old_inputs), to_values(request.news), to_values(request.olds)
        changes = differences.between(token, resource, old, new, made)
        changed = sorted({each.key for each in changes})
        replaced = sorted({each.key for each in changes if each.replaces})
        response = provider_pb2.DiffResponse
        return response(
            changes=response.DIFF_SOME if changed else response.DIFF_NONE,
            replaces=replaced,
            # two things cannot have one name; a name that was filled in is another one after a replacement
            deleteBeforeReplace=bool(replaced) and "name" not in new.get(FILLED_IN, []) and "name" not in changed,
            diffs=changed,
            detailedDiff=detailed(changes),
            hasDetailedDiff=True,
        )

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        inputs = to_values(request.properties)
        token = _token(request.urn)
        kind = kinds.of(token, resource)
        if request.preview:
            return provider_pb2.CreateResponse(properties=to_struct(outputs.planned(kind, resource, inputs)))
        places = {key: self._settings[key] for key in ("project", "region", "zone")}
        with _refusals_told(context):
            preconditions.check(self._making(token, inputs))
            identifier, made = outputs.created(kind, resource, request.urn, inputs, places)
            made |= self._emulated.make(token, identifier, made, places["project"])
            (self.store.put if kind.shared else self.store.create)(token, identifier, made)
            return provider_pb2.CreateResponse(
                id=identifier, properties=self._written(request, resource, made, identifier)
            )

    def Read(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        known, state = to_values(request.inputs), to_values(request.properties)
        with _refusals_told(context):
            if known or state:  # an import knows nothing yet, so there is nothing to lose
                self.store.must_have_made(request.id, state)
            token = _token(request.urn)
            thing = self.store.read(token, request.id)
            thing = self._emulated.read(token, request.id, thing) if thing else None
            if thing is None:
                return provider_pb2.ReadResponse()
            properties = self._written(request, resource, thing)
        # of an import everything that can be an input is one
        keys = set(known) - {FILLED_IN} or set(resource.inputs)
        read = outputs.as_inputs(kinds.of(token, resource), known, thing, keys)
        inputs = read | {FILLED_IN: known.get(FILLED_IN, [])}
        return provider_pb2.ReadResponse(id=request.id, properties=properties, inputs=to_struct(inputs))

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        resource = self._resource(request.urn, context)
        old = to_values(request.olds)
        token, news = _token(request.urn), to_values(request.news)
        properties = outputs.updated(kinds.of(token, resource), resource, old, news)
        if request.preview:
            return provider_pb2.UpdateResponse(properties=to_struct(properties))
        properties = differences.unsent_stays(token, old, properties)
        with _refusals_told(context):
            self.store.must_have_made(request.id, old)
            preconditions.check_update(token, request.id, old, news)
            self._emulated.change(token, request.id, old, properties)
            self.store.update(token, request.id, properties)
            return provider_pb2.UpdateResponse(properties=self._written(request, resource, properties))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        with _refusals_told(context):
            self.store.must_have_made(request.id, to_values(request.properties))
            token = _token(request.urn)
            gke_refusals.check_delete(token, to_values(request.properties))
            self._emulated.delete(token, request.id, to_values(request.properties))
            if token == gke.CLUSTER:
                self.store.delete_below(gke.POOL, f"{request.id}/nodePools")
            self.store.delete(token, request.id)
        return empty_pb2.Empty()

    def Invoke(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.tok == preconditions.STORAGE_AGENT:
            with _refusals_told(context):
                return _answer(preconditions.obtain_storage_agent(self._making(request.tok, to_values(request.args))))
        if request.tok != _CLIENT_CONFIG:
            context.abort(
                grpc.StatusCode.UNAVAILABLE,
                f"'{request.tok}' asks Google, which the stand-in for the gcp plugin cannot; install the official one:"
                f" pulumi plugin install resource gcp {self._version}",
            )
        return _answer({"id": "", "defaultLabels": {}, **self._settings})

    # Below: how a call is carried out.

    def _resource(self, urn: str, context: grpc.ServicerContext) -> schema.ResourceType:
        token = _token(urn)
        resource = schema.resource_type(token)
        if resource is None:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, f"'{token}' is not a resource of pulumi_gcp {self._version}")
            raise AssertionError("abort raises")
        return resource

    def _written(
        self, request: Any, resource: schema.ResourceType, properties: Mapping[str, Any], identifier: str = ""
    ) -> Any:
        """Outputs as they come into a state. identifier: where the request has none yet."""
        marked = self.store.marked(properties)
        return to_struct(state_form.written(_token(request.urn), resource, identifier or request.id, marked))

    def _making(self, token: str, inputs: dict[str, Any]) -> Making:
        return Making(token, inputs, self._settings, self.store)


def _token(urn: str) -> str:
    return urn.split("::")[2].split("$")[-1]


def _name(urn: str, seed: bytes) -> str:
    """A name as the official plugin makes it: the resource's own, and seven letters that no other has."""
    suffix = hashlib.sha256(seed).hexdigest() if seed else secrets.token_hex(4)
    return f"{urn.split('::')[-1]}-{suffix[:7]}"


def _failures(problems: Iterable[rules.Problem], name: str) -> list[Any]:
    """The place is in the sentence, as the official plugin has it: as a property it gets a Go value printed beside."""
    return [provider_pb2.CheckFailure(reason=f"{each.reason}; see '{name}.{each.path}'") for each in problems]


def _answer(values: Mapping[str, Any]) -> Any:
    answer: Any = {"return": to_struct(values)}  # a keyword in Python
    return provider_pb2.InvokeResponse(**answer)


@contextlib.contextmanager
def _refusals_told(context: grpc.ServicerContext) -> Generator[None]:
    """Ends the call with the sentence of a ResourceError."""
    try:
        yield
    except ResourceError as error:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
