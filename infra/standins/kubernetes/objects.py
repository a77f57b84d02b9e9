"""What is done with one object of the API server: tried, made, changed, read, deleted.

Owns the order of requests, waiting, and the sentences that name the object. Refuses to own the engine's protocol
(server.py).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import cast

from infra.providers.resource import Context, ResourceError
from infra.standins.kubernetes import manifests
from infra.standins.kubernetes.api_server import ApiRefusedError, ApiServer, Served
from infra.standins.kubernetes.manifests import Fields, Sort
from infra.standins.kubernetes.refusals import ApiRefusal

_MANAGER = "pulumi-kubernetes-"  # and eight letters, as the official plugin makes it
_SHORTEST_PAUSE_S, _PAUSE_S = 0.03, 0.24  # between looks at what is being deleted
_TRIES, _FIRST_PAUSE_S = 5, 1.0  # of a create whose namespace or kind is not there yet, as the official plugin has it
_IDENTITY = {"metadata", "metadata.name", "metadata.namespace"}
_PROPAGATIONS = {"orphan": "Orphan", "background": "Background"}


class AbsentError(ResourceError):
    """The API server has no such kind or no such namespace."""


class TakenError(ResourceError):
    """An object of this name exists already."""


def new_manager() -> str:
    return _MANAGER + secrets.token_hex(4)


@dataclass(frozen=True)
class Ownership:
    """As whom fields are set. takes_existing: also those of an object that is there already. force: also others'."""

    manager: str
    takes_existing: bool = False
    force: bool = False


@dataclass(frozen=True)
class KubernetesObject:
    """One object of the API server, by what a manifest says of it."""

    server: ApiServer
    sort: Sort
    namespace: str
    name: str

    @classmethod
    def of(cls, server: ApiServer, manifest: Fields) -> KubernetesObject:
        sort = manifests.spelled(manifest)
        return cls(server, sort, manifests.namespace_of(manifest), manifests.name_of(manifest))

    def __str__(self) -> str:
        return f"{self.sort.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.sort.kind} {self.name}"

    # Previews.

    def try_create(self, manifest: Fields, owner: Ownership, planned: Planned) -> Fields | None:
        """What a create would make; None where a preview cannot tell. Raises ResourceError for what is refused.

        What is not known yet is left out, and complaints of that are passed over.
        """
        unknown, known = manifests.unknown_paths(manifest), manifests.known_part(manifest)
        if _IDENTITY & set(unknown) or (self._served() is None and planned.has_kind(self.sort)):
            return None
        kind = self._kind()
        try:
            self._try_name(kind, known, owner)
            made = self._applied(kind, known, owner, dry=True)
        except ApiRefusedError as error:
            planned_namespace = error.refusal.is_of_namespace and self.namespace in planned.namespaces
            if planned_namespace or error.refusal.is_due_to(unknown):
                return None
            raise self._refused(error.refusal) from None
        return None if unknown else made

    def _try_name(self, kind: Served, manifest: Fields, owner: Ownership) -> None:
        """Raises TakenError, after all else has passed."""
        try:
            self.server.try_create(kind, manifest, self.namespace, owner.manager)
        except ApiRefusedError as error:
            if not error.refusal.is_duplicate:
                raise
            if not owner.takes_existing:
                raise TakenError(self._taken()) from None

    def try_update(self, manifest: Fields, owner: Ownership) -> tuple[Fields | None, ApiRefusal | None]:
        """What an update would make, or why it is refused; neither where a preview cannot tell."""
        unknown, known = manifests.unknown_paths(manifest), manifests.known_part(manifest)
        try:
            made = self._applied(self._kind(), known, owner, dry=True)
        except ApiRefusedError as error:
            refusal = self._plainer(error.refusal, known, owner)
            return None, None if refusal.is_due_to(unknown) else refusal
        return (None if unknown else made), None

    # What is done.

    def create(self, call: Context, manifest: Fields, owner: Ownership) -> Fields:
        """Raises TakenError."""
        pause = _FIRST_PAUSE_S
        for left in reversed(range(_TRIES)):
            try:
                return self._created(manifest, owner)
            except AbsentError as error:
                if not left:
                    raise
                call.report(f"again in {pause:.0f} s: {error}")
                call.wait(pause)
                pause *= 2
        raise AssertionError("the last try returns or raises")

    def _created(self, manifest: Fields, owner: Ownership) -> Fields:
        kind = self._kind(anew=True)
        try:
            if not owner.takes_existing and self.server.get(kind, self.namespace, self.name):
                raise TakenError(self._taken())
            return self._applied(kind, manifest, owner)
        except ApiRefusedError as error:
            raise self._refused(error.refusal) from None

    def update(self, manifest: Fields, owner: Ownership) -> Fields:
        if self.read() is None:
            raise ResourceError(f"{self} is gone from {self.server.name}; run `pulumi refresh`, then `pulumi up`")
        try:
            return self._applied(self._kind(), manifest, owner)
        except ApiRefusedError as error:
            raise self._refused(error.refusal) from None

    def read(self) -> Fields | None:
        """None where it is not there, or its kind is not."""
        kind = self._served()
        try:
            return self.server.get(kind, self.namespace, self.name) if kind else None
        except ApiRefusedError as error:
            raise self._refused(error.refusal) from None

    def delete(self, call: Context, inputs: Fields) -> None:
        """Returns when it is gone, with all that belongs to it. inputs: may ask for another order."""
        before = self.read()
        kind = self._served()
        if before is None or kind is None:
            return
        asked = manifests.annotation(inputs, "pulumi.com/deletionPropagationPolicy").lower()
        try:
            self.server.delete(kind, self.namespace, self.name, _PROPAGATIONS.get(asked, "Foreground"))
        except ApiRefusedError as error:
            if error.refusal.is_absence:
                return
            raise self._refused(error.refusal) from None
        self._wait_until_gone(call, str(manifests.metadata(before).get("uid", "")))

    def _wait_until_gone(self, call: Context, uid: str) -> None:
        pause = _SHORTEST_PAUSE_S
        while (found := self.read()) is not None and manifests.metadata(found).get("uid") == uid:
            holders = ", ".join(cast(list[str], manifests.metadata(found).get("finalizers") or []))
            if pause == _PAUSE_S:
                call.report("waiting until it is gone" + (f" (finalizers: {holders})" if holders else ""))
            call.wait(pause)
            pause = min(2 * pause, _PAUSE_S)
        call.report("")  # else it stands on the row of what is made in its place

    # Below: kinds and sentences.

    def _served(self) -> Served | None:
        return self.server.served(self.sort)

    def _kind(self, anew: bool = False) -> Served:
        kind = self._served() or (self.server.served(self.sort, anew=True) if anew else None)
        if kind is None:
            raise AbsentError(
                f"{self}: {self.server.name} has no kind {self.sort.kind} in {self.sort.api_version}; is the"
                f" CustomResourceDefinition installed?"
            )
        return kind

    def _applied(self, kind: Served, manifest: Fields, owner: Ownership, dry: bool = False) -> Fields:
        return self.server.apply(kind, manifest, (self.namespace, self.name), owner.manager, owner.force, dry)

    def _plainer(self, refusal: ApiRefusal, manifest: Fields, owner: Ownership) -> ApiRefusal:
        """The words that a create would get for a field of the wrong name or type: those of apply are Go's."""
        if refusal.is_of_types:
            try:
                self.server.try_create(self._kind(), manifest, self.namespace, owner.manager)
            except ApiRefusedError as error:
                if not error.refusal.is_duplicate:
                    return error.refusal
        return refusal

    def _refused(self, refusal: ApiRefusal) -> ResourceError:
        return refused(str(self), refusal)

    def _taken(self) -> str:
        found = self.read() or {}
        entries = cast(list[Fields], manifests.metadata(found).get("managedFields") or [])
        makers = ", ".join(dict.fromkeys(str(each.get("manager")) for each in entries if not each.get("subresource")))
        since = manifests.metadata(found).get("creationTimestamp", "")
        return (
            f"{self} exists already in {self.server.name}"
            + (f", since {since}" if since else "")
            + (f", made by {makers}" if makers else "")
            + "; delete it, give yours another name, or import it into the state"
        )


def refused(what: str, refusal: ApiRefusal) -> ResourceError:
    kind = AbsentError if refusal.is_of_namespace else ResourceError
    advice = '; write the annotation pulumi.com/patchForce: "true" to take them' if refusal.is_conflict else ""
    return kind(f"{what}: the API server refuses it: {refusal.sentence()}{advice}")


@dataclass(frozen=True)
class Planned:
    """What this program has declared so far, and the API server therefore need not have yet."""

    namespaces: Collection[str] = frozenset()
    kinds: Collection[tuple[str, str]] = frozenset()

    def has_kind(self, sort: Sort) -> bool:
        return (sort.group, sort.kind) in self.kinds

    def with_manifest(self, manifest: Fields) -> Planned:
        sort, name = manifests.spelled(manifest), manifests.name_of(manifest)
        if (sort.group, sort.kind) == ("", "Namespace"):
            return Planned({*self.namespaces, name}, self.kinds)
        if sort.kind == "CustomResourceDefinition":
            spec = cast(Fields, manifest.get("spec") or {})
            named = str(cast(Fields, spec.get("names") or {}).get("kind", ""))
            return Planned(self.namespaces, {*self.kinds, (str(spec.get("group", "")), named)})
        return self
