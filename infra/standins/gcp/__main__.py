"""pulumi-resource-gcp where the official plugin cannot be had: any gcp resource, checked and planned, made nowhere.

It lives in infra/ and not in tests/emulators/ because `make preview` runs through it too, on a machine without the
official plugin. There it only previews; making, reading and deleting are refused. With SLIPWAY_STANDIN_STATE naming a
directory (tests do that) a resource is a JSON file in it, which a test may change or remove behind the engine's back.

It proves the program, the plan, ordering, protection, diffs and the argument checks listed in rules.py. It does not
prove that Google accepts the arguments, and knows no quota, permission or price.
"""

import os

from infra.providers.server import serve_plugin
from infra.standins.gcp.server import Server
from infra.standins.gcp.store import STATE_VARIABLE

serve_plugin(Server(os.environ, os.environ.get(STATE_VARIABLE)), on_end=lambda: None)
