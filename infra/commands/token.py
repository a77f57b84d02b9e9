"""`slipway token`: who asks a cluster of Google's, for programs that a kubeconfig sends here."""

from __future__ import annotations

import typer

from infra.google_login import credential


def token() -> None:
    """Print a token of Google's as kubeconfigs of GKE want one; no person needs it."""
    typer.echo(credential())
