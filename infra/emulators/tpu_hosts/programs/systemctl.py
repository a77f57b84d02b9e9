"""`systemctl` of an emulated host: asks its init (init.py). Its first argument is its own path.

Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from pathlib import Path


def main(own: str, arguments: list[str]) -> int:
    directory = Path(own).parents[1]
    name = f"\0slipway-emulated-{hashlib.sha256(str(directory).encode()).hexdigest()[:32]}"
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(name)
        except OSError as error:
            print(f"System has not been booted: {error.strerror}", file=sys.stderr)
            return 1
        connection.sendall(json.dumps(arguments).encode() + b"\n")
        answer = json.loads(connection.makefile("rb").readline() or b'{"code": 1, "said": "the host has ended"}')
    if answer["said"]:
        print(answer["said"], file=sys.stderr if answer["code"] else sys.stdout)
    return int(answer["code"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
