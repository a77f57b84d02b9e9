"""An emulator of the Cloud TPU API, v2 over REST, for tests and for people without an account.

It is here and not below tests/ because a command of the product serves it: `slipway emulate tpu`. Tests import it from
here. A real HTTP server that Google's own client talks to; every request is parsed into, and every response printed
from, the client's own protobuf messages.

Written from the documentation and that client's docstrings. It was never compared with the real service: what they
leave open is a field of Behaviour, or marked "our choice" in the code.
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
    Tier,
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
    "Tier",
    "Timings",
    "TpuApi",
    "ZoneRefusal",
]
