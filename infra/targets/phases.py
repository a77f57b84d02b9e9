"""Phases of a host beyond those that it says of itself (training/host_status.py), and of a whole stack."""

from __future__ import annotations

from training.host_status import Phase

RUNNING = frozenset(phase for phase in Phase if not phase.final)
LOST = "lost"  # it is gone without a last word
ABSENT = "absent"  # of a stack: it has no hosts

# A stack is in the first of these that any of its hosts is in. Those before BOOTSTRAPPING end a run early.
ENDED_EARLY = (Phase.FAILED, LOST, Phase.INTERRUPTED)
BY_WEIGHT = (*ENDED_EARLY, Phase.BOOTSTRAPPING, Phase.STARTING, Phase.COMPILING, Phase.TRAINING, Phase.FINISHED)
