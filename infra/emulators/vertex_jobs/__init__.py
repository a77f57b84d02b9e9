"""An emulator of the custom jobs of Vertex AI, v1 over REST, for tests and for people without an account.

A real HTTP server that Google's own clients and gcloud talk to. Written from the client's docstrings, Google's pages
and answers of the real service that others published (read 2026-11-26; in the code: "seen"). We never compared it with
the real service: what none of these says is a field of JobBehaviour, or marked "our choice" in the code.
"""

from infra.emulators.call_faults import Call as Call
from infra.emulators.call_faults import Fault as Fault
from infra.emulators.call_faults import FaultKind as FaultKind
from infra.emulators.vertex_jobs.job_cloud import JobCloud as JobCloud
from infra.emulators.vertex_jobs.job_records import JobBehaviour as JobBehaviour
from infra.emulators.vertex_jobs.job_records import JobState as JobState
from infra.emulators.vertex_jobs.job_records import JobTimings as JobTimings
from infra.emulators.vertex_jobs.job_records import MachineTerms as MachineTerms
from infra.emulators.vertex_jobs.job_stock import JobStock as JobStock
from infra.emulators.vertex_jobs.job_stock import MachineLimit as MachineLimit
from infra.emulators.vertex_jobs.vertex_server import VertexApi as VertexApi
