"""Answers the one question that the engine's Python host has of pip at every command, in a tenth of pip's time.

The host starts `python -m pip list -v --format json` in this folder, to learn which packages bring plugins; pip needs
0.4 s of a processor for it, a third of a small preview. Because Python looks for `-m` modules in the folder where it is
started, this file must have this name and stand here. Whatever else pip is asked, pip itself answers.
"""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

_ASKED = ["list", "-v", "--format", "json"]
_HERE = Path(__file__).parent


def installed(folders: list[str]) -> Iterator[dict[str, str]]:
    """Name, version and place of every package below these folders of `sys.path`."""
    for folder in folders:
        for metadata in sorted(Path(folder).glob("*.dist-info/METADATA")):
            fields = {"location": folder}
            with metadata.open(encoding="utf-8") as lines:
                for line in lines:
                    key, _, value = line.partition(":")
                    if key in ("Name", "Version"):
                        fields[key.lower()] = value.strip()
                    if len(fields) == 3 or not line.strip():
                        break
            yield fields


if __name__ == "__main__":
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != _HERE]
    if sys.argv[1:] == _ASKED:
        print(json.dumps(list(installed(sys.path))))
    else:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)
