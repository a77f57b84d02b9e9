"""Phases of a host beyond those that it says of itself (training/host_status.py), and of a whole stack."""

from __future__ import annotations

from training.host_status import Phase

BOOTING = "booting"  # its machine is there, and bootstrap.sh has not begun
RUNNING = frozenset((BOOTING, *(phase for phase in Phase if not phase.final)))
LOST = "lost"  # it is gone without a last word
ABSENT = "absent"  # of a stack: it has no hosts

# A stack is in the first of these that any of its hosts is in. Those before BOOTING end a run early.
ENDED_EARLY = (Phase.FAILED, LOST, Phase.INTERRUPTED)
_ON_THE_WAY = (BOOTING, Phase.BOOTSTRAPPING, Phase.STARTING, Phase.COMPILING)
BY_WEIGHT = (*ENDED_EARLY, *_ON_THE_WAY, Phase.TRAINING, Phase.FINISHED)
