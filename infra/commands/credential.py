"""`slipway credential`: who asks a cluster of Google's, for programs that a kubeconfig sends here."""

from __future__ import annotations

import typer

from infra.google_login import credential as google_credential


def credential() -> None:
    """Print a token of Google's as kubeconfigs of GKE want one; no person needs it."""
    typer.echo(google_credential())
