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

from infra.emulators.call_faults import Call as Call
from infra.emulators.call_faults import Fault as Fault
from infra.emulators.call_faults import FaultKind as FaultKind
from infra.emulators.tpu_api.cloud import Cloud as Cloud
from infra.emulators.tpu_api.pools import QuotaTier as QuotaTier
from infra.emulators.tpu_api.pools import ZoneRefusal as ZoneRefusal
from infra.emulators.tpu_api.records import HOST_READY as HOST_READY
from infra.emulators.tpu_api.records import Behaviour as Behaviour
from infra.emulators.tpu_api.records import GuestAttribute as GuestAttribute
from infra.emulators.tpu_api.records import Hidden as Hidden
from infra.emulators.tpu_api.records import NodeState as NodeState
from infra.emulators.tpu_api.records import OperationEnds as OperationEnds
from infra.emulators.tpu_api.records import QuotaRefusal as QuotaRefusal
from infra.emulators.tpu_api.records import RequestState as RequestState
from infra.emulators.tpu_api.records import Timings as Timings
from infra.emulators.tpu_api.server import TpuApi as TpuApi
