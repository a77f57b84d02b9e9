"""A cluster's API server, asked as kubectl would be: by a context of the kubeconfig, or by one of its own.

Owns the connection and what is said where it fails. Refuses to own what is asked. The official client is
imported with the first question (0.55 s of a processor), so that a preview does not pay for it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from infra.targets.errors import TargetError

_ANSWERS_S = 20.0
_DENIED, _ABSENT = 403, 404
_NO_CONTENT = {"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}  # no value of a secret
_MERGE, _APPLY = "application/merge-patch+json", "application/apply-patch+yaml"  # JSON is YAML


class ClusterRefusedError(TargetError):
    """The API server has said no."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


class Cluster:
    """Raises TargetError for a context that is not there, a server that does not answer, and what it refuses."""

    def __init__(self, context: str, kubeconfig: Mapping[str, Any] | None = None) -> None:
        """kubeconfig: what has the context, where that is not a file of the person's own."""
        from kubernetes import config

        self.context = context
        untyped: Any = config
        try:
            if kubeconfig is None:
                self._client: Any = untyped.new_client_from_config(context=context)
            else:
                self._client = untyped.new_client_from_config_dict(dict(kubeconfig), context, persist_config=False)
        except config.ConfigException as error:
            raise TargetError(f"context '{context}' leads to no cluster: {_one_line(error)}") from None

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The object, or the list, at a path of the API."""
        return json.loads(self._ask("GET", path, query or {}).read())

    def find(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any] | None:
        """The object, or the list, at a path; None where there is none."""
        answer = self._ask("GET", path, query or {}, passed_over=(_ABSENT,))
        return None if answer.status == _ABSENT else json.loads(answer.read())

    def look(self, path: str) -> dict[str, Any] | None:
        """The object at a path; None where there is none, or whoever asks may not see it."""
        answer = self._ask("GET", path, {}, passed_over=(_DENIED, _ABSENT))
        return None if answer.status in (_DENIED, _ABSENT) else json.loads(answer.read())

    def is_there(self, path: str) -> bool | None:
        """Whether there is an object, of which nothing else is read; None where whoever asks may not know."""
        answer = self._ask("GET", path, {}, passed_over=(_DENIED, _ABSENT), headers=_NO_CONTENT)
        return None if answer.status == _DENIED else answer.status != _ABSENT

    def delete(self, path: str) -> None:
        """Ask for an object's end, with all that belongs to it; it may be gone already."""
        self._ask("DELETE", path, {"propagationPolicy": "Foreground"}, passed_over=(_ABSENT,))

    def merge(self, path: str, change: Mapping[str, Any]) -> None:
        """Change fields of an object (a JSON merge patch)."""
        self._ask("PATCH", path, {}, body=change, headers={"Content-Type": _MERGE})

    def apply(self, path: str, manifest: Mapping[str, Any], manager: str) -> None:
        """Make an object, or set its fields whoever else has set them; a field that nobody knows is refused."""
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true"}
        self._ask("PATCH", path, query, body=manifest, headers={"Content-Type": _APPLY})

    def try_create(self, path: str, manifest: Mapping[str, Any]) -> None:
        """Ask whether an object of a list would be admitted, which is not made. Raises ClusterRefusedError."""
        self._ask("POST", path, {"dryRun": "All"}, body=manifest, headers={"Content-Type": "application/json"})

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """The text at a path as it arrives."""
        rest = b""
        for part in self._ask("GET", path, query, timeout_s=None).response.stream(decode_content=True):
            *whole, rest = (rest + part).split(b"\n")
            yield from (line.decode(errors="replace") for line in whole)
        if rest:
            yield rest.decode(errors="replace")

    def _ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        passed_over: Collection[int] = (),
        timeout_s: float | None = _ANSWERS_S,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """The open answer, also one with a status that is passed over."""
        from urllib3.exceptions import HTTPError

        asked = self._client.param_serialize(
            method,
            path,
            query_params=list(query.items()),
            header_params=dict(headers or {}),
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*asked, _request_timeout=timeout_s)
            is_taken = answer.status < 300 or answer.status in passed_over
            refused = "" if is_taken else _said(answer.status, answer.read())
        except HTTPError as error:
            server = self._client.configuration.host
            raise TargetError(
                f"the cluster of context '{self.context}' at {server} cannot be asked: {_one_line(error)}"
            ) from None
        if refused:
            raise ClusterRefusedError(f"the cluster of context '{self.context}' says: {refused}", answer.status)
        return answer


def _said(status: int, body: bytes) -> str:
    """The server's own sentence."""
    try:
        return _one_line(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {status}"


def _one_line(said: object) -> str:
    return " ".join(str(said).split())
