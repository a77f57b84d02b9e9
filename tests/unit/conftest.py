"""Hypothesis without a deadline per example: what a loaded machine takes longer for is no failure."""

from hypothesis import settings

settings.register_profile("slipway", deadline=None)
settings.load_profile("slipway")
