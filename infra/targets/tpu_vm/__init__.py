"""Target `tpu-vm`: TPU slices by one queued resource, whose hosts start training. Not run on real hardware."""

from infra.emulated import QUESTIONS, STORAGE, TPU
from infra.targets.about import About

ABOUT = About(asks=frozenset((TPU, STORAGE, QUESTIONS)))
