"""What the stand-in has made: one JSON file per resource, under a directory that SLIPWAY_STANDIN_STATE names.

Owns: the files, refusing where no directory is named, and the mark in a resource's outputs that says which directory
made it. A file is `<module>/<type>/<id, quoted>.json` and holds the resource's properties; a test that edits or removes
one plays the part of somebody at the cloud's console.

Without the mark a variable left over in a shell would let `refresh` drop from the state whatever Google's plugin had
made, for there is no file of it.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from infra.providers.resource import ResourceError

STATE_VARIABLE = "SLIPWAY_STANDIN_STATE"
MARK = "__standInDirectory"  # among a resource's outputs; the engine shows no key that begins with two underscores


class StandInStore:
    """directory: None where nothing may be made or read, only previewed. version: of the plugin to install instead."""

    def __init__(self, directory: str | None, version: str) -> None:
        self._directory = directory
        self._version = version

    def marked(self, outputs: Mapping[str, Any]) -> dict[str, Any]:
        return {**outputs, MARK: self._name()}

    def must_have_made(self, identifier: str, outputs: Mapping[str, Any]) -> None:
        """Refuse what another directory made, or Google's own plugin."""
        directory = self._name()
        maker = outputs.get(MARK)
        if maker is None:
            raise ResourceError(
                f"'{identifier}' was not made by this stand-in for Google's plugin, so it may be real; nothing was"
                f" read, changed or deleted. Run `unset {STATE_VARIABLE}` and install the official plugin:"
                f" pulumi plugin install resource gcp {self._version}"
            )
        if maker != directory:
            raise ResourceError(
                f"'{identifier}' was made in the stand-in's directory {maker}, and {STATE_VARIABLE} is {directory};"
                f" nothing was read, changed or deleted. Run `export {STATE_VARIABLE}={maker}`"
            )

    def create(self, token: str, identifier: str, properties: dict[str, Any]) -> None:
        path = self._path(token, identifier)
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x") as file:
                file.write(_text(properties))
        except FileExistsError:
            raise ResourceError(
                f"Error 409: '{identifier}' already exists; import it, or choose another name"
            ) from None

    def put(self, token: str, identifier: str, properties: dict[str, Any]) -> None:
        """Creates a grant, which another resource may have created already."""
        path = self._path(token, identifier)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_text(properties))

    def read(self, token: str, identifier: str) -> dict[str, Any] | None:
        try:
            return json.loads(self._path(token, identifier).read_text())
        except FileNotFoundError:
            return None

    def every(self, token: str) -> list[dict[str, Any]]:
        """All of a type, whoever made them."""
        return [json.loads(path.read_text()) for path in sorted(self._path(token, "").parent.glob("*.json"))]

    def update(self, token: str, identifier: str, properties: dict[str, Any]) -> None:
        path = self._path(token, identifier)
        if not path.exists():
            raise ResourceError(f"Error 404: '{identifier}' is gone; run `pulumi refresh`, then `pulumi up` again")
        path.write_text(_text(properties))

    def delete(self, token: str, identifier: str) -> None:
        """Deletes the file of a resource, if there is one."""
        self._path(token, identifier).unlink(missing_ok=True)

    def delete_below(self, token: str, identifier: str) -> None:
        """Deletes what is in something else, by the beginning of its id."""
        path = self._path(token, f"{identifier}/")
        for each in path.parent.glob(f"{glob.escape(path.stem)}*.json"):
            each.unlink(missing_ok=True)

    def _name(self) -> str:
        if not self._directory:
            raise ResourceError(
                "this is the stand-in for Google's plugin, which only previews; nothing was made, read or deleted."
                f" Install the official one: pulumi plugin install resource gcp {self._version}"
            )
        return str(Path(self._directory).resolve())

    def _path(self, token: str, identifier: str) -> Path:
        module, _, kind = token.removeprefix("gcp:").partition(":")
        return Path(self._name()) / module.partition("/")[0] / kind / f"{quote(identifier, safe='@')}.json"


def _text(properties: dict[str, Any]) -> str:
    return json.dumps(properties, indent=2, sort_keys=True) + "\n"
