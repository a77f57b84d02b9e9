"""Target `foundation`: what outlives every training in one region. Destroying a training cannot reach it."""

from infra.emulated import PLUGIN, QUESTIONS, STAND_IN, STORAGE
from infra.targets.about import About

ABOUT = About(asks=frozenset((STORAGE, QUESTIONS, STAND_IN, PLUGIN)), google_plugin=True)
