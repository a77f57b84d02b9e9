"""Commands of `slipway` about the artifact store.

Entry point: reads the world, prints, deletes. The rules are in infra/artifacts/.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.filesize import decimal

from infra.artifacts import uses
from infra.artifacts.gc import kept_wheelhouses, unreferenced
from infra.artifacts.layout import wheelhouse_key
from infra.artifacts.opening import open_store
from infra.artifacts.store import Entry, NoObjectError, Store, StoreError
from infra.commands.terminal import fail, note_storage_of
from infra.operate.hosts import store as store_of
from infra.paths import ARTIFACTS, WORK, stack_file
from infra.runs.named_artifacts import by_records, by_stacks
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import SettingsError


def gc(
    of: Annotated[str, typer.Argument(help="A stack, a directory or a place in a bucket: gs://...")] = str(ARTIFACTS),
    delete: Annotated[bool, typer.Option("--delete", help="Delete what the table shows.")] = False,
    min_age_h: Annotated[float, typer.Option(min=0, help="Keep what is younger, in hours.")] = 24.0,
    forget: Annotated[str, typer.Option(metavar="OWNER/STACK", help="First forget what that stack has used.")] = "",
) -> None:
    """Show, or with --delete remove, artifacts that nobody's stack and no run record names."""
    try:
        uri = _uri(of)
        note_storage_of(uri)
        if forget:
            _forget(uri, forget)
        _gc(uri, delete, timedelta(hours=min_age_h))
    except (StoreError, SettingsError) as error:
        fail(str(error))


def _forget(uri: str, user: str) -> None:
    """For a stack whose state is lost, which nobody can destroy any more."""
    if not re.fullmatch(r"[^/]+/[^/]+", user):
        fail(f"--forget is '{user}'; give OWNER/STACK, as `slipway gc` lists them")
    removed = uses.forget(open_store(uri), user)
    typer.echo(f"forgot {removed} uses of {user}" if removed else f"nothing is known of {user}")


def _uri(of: str) -> str:
    if not stack_file(of).is_file():
        return of
    settings = stack_settings.from_file(of)
    return store_of(settings.target, settings)


def _gc(uri: str, delete: bool, min_age: timedelta) -> None:
    store = open_store(uri)
    # The listing comes before the names: what a push adds meanwhile is not in it.
    entries = list(store.entries())
    now = datetime.now(UTC)
    in_stacks, stacks = by_stacks()
    in_records, records = by_records(store, WORK)
    used = uses.of_entries(entries)
    named = in_stacks | in_records | uses.named(used)
    kept = kept_wheelhouses(entries, named, now, min_age)
    sums = {each: store.read(wheelhouse_key(each)).decode(errors="replace") for each in kept}
    gone = unreferenced(entries, named, sums, now, min_age)
    asked = f"{len(stacks)} stacks and {records} run records name {len(named.wheelhouses)} wheelhouses and "
    typer.echo(f"{store.uri}: {asked}{len(named.bundles)} bundles")
    for use, updated in used.items():
        typer.echo(f"  in use by {use.user}, whose last `up` was {(now - updated).days} days ago")
    if not gone:
        typer.echo("nothing to delete")
        return
    for entry in gone:
        typer.echo(f"{decimal(entry.size):>12}  {(now - entry.updated).days:>5} days  {entry.key}")
    total = f"{len(gone)} objects, {decimal(sum(entry.size for entry in gone))}"
    if not delete:
        typer.echo(f"{total} would go; delete them with: slipway gc {uri} --delete")
        return
    deleted = [entry for entry in gone if _delete(store, entry)]
    typer.echo(f"deleted {len(deleted)} objects, {decimal(sum(entry.size for entry in deleted))}")


def _delete(store: Store, entry: Entry) -> bool:
    """False where the object is gone already, or a push has come to use it since it was listed."""
    try:
        if store.updated(entry.key) != entry.updated:
            return False
    except NoObjectError:
        return False
    store.delete(entry.key)
    return True
