"""An emulator of the Cloud TPU API, v2 over REST, for tests and for people without an account.

It is here and not below tests/ because a command of the product serves it: `slipway emulate tpu`. Tests import it from
here. A real HTTP server that Google's own client talks to; every request is parsed into, and every response printed
from, the client's own protobuf messages.

Written from the documentation, that client's docstrings, gcloud's own source, and answers of the real service that
others published (read 2026-11-21; in the code: "seen"). We never compared it with the real service:
what none of these says is a field of Behaviour, or marked "our choice" in the code. Seen are: the words of errors
(errors.py), fields and project numbers in answers (extras.py, views.py), states and attributes of nodes (levers.py).
`make test-gcloud` runs the real gcloud against it; what that sends is replayed in every test run.
"""

from infra.emulators.tpu_api.cloud import Cloud
from infra.emulators.tpu_api.faults import Call, Fault, FaultKind
from infra.emulators.tpu_api.pools import QuotaTier, ZoneRefusal
from infra.emulators.tpu_api.records import (
    HOST_READY,
    Behaviour,
    GuestAttribute,
    Hidden,
    NodeState,
    OperationEnds,
    QuotaRefusal,
    RequestState,
    Timings,
)
from infra.emulators.tpu_api.server import TpuApi

__all__ = [
    "HOST_READY",
    "Behaviour",
    "Call",
    "Cloud",
    "Fault",
    "FaultKind",
    "GuestAttribute",
    "Hidden",
    "NodeState",
    "OperationEnds",
    "QuotaRefusal",
    "QuotaTier",
    "RequestState",
    "Timings",
    "TpuApi",
    "ZoneRefusal",
]
