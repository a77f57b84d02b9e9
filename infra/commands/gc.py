"""Commands of `slipway` about the artifact store.

Entry point: reads the world, prints, deletes. The rules are in infra/artifacts/.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.filesize import decimal

from infra.artifacts import uses, wanted
from infra.artifacts.gc import Named, kept_wheelhouses, unreferenced
from infra.artifacts.layout import bundle_key, wheelhouse_key
from infra.artifacts.opening import open_store
from infra.artifacts.store import Entry, NoObjectError, Store, StoreError
from infra.commands.terminal import fail, note_storage_of
from infra.host_software.bundle import run_spec_in, wheelhouse_of
from infra.operate import billed_places
from infra.operate.billed_places import Asked
from infra.paths import ARTIFACTS, WORK, stack_file
from infra.runs.named_artifacts import SO_NOTHING, by_records, by_stacks, text_of
from infra.runs.unused_text import StoredText, unused_texts
from infra.stack_file import settings as stack_settings
from infra.stack_file.settings import Settings, every
from infra.stack_file.terms import Terms
from infra.targets.errors import TargetError
from infra.targets.places import below, in_bucket


def gc(
    of: Annotated[str, typer.Argument(help="A stack, a directory or a place in a bucket: gs://... or s3://...")] = str(
        ARTIFACTS
    ),
    delete: Annotated[bool, typer.Option("--delete", help="Delete what the table shows.")] = False,
    min_age_h: Annotated[float, typer.Option(min=0, help="Keep what is younger, in hours.")] = 24.0,
    forget: Annotated[str, typer.Option(metavar="OWNER/STACK", help="First forget what that stack has used.")] = "",
    project: Annotated[
        str, typer.Option(help="Where the hosts run that read a bucket; else where the stacks of stacks/ run them.")
    ] = "",
    data: Annotated[bool, typer.Option("--data", help="Instead: prepared text in a stack's data bucket.")] = False,
) -> None:
    """Show, or with --delete remove, artifacts that nobody's stack, nothing that runs and no run record names."""
    if data:
        _gc_of_texts(of, delete, timedelta(hours=min_age_h))
        return
    uri = stack_settings.from_file(of).places.artifacts if stack_file(of).is_file() else of
    note_storage_of(uri)
    users = [each for each in every(Settings) if each.places.artifacts == uri]
    asked = billed_places.named(project, every(Terms)) if project else _places_of(uri, users)
    if forget:
        _forget(uri, forget)
    runs = [below(uri, "runs"), *(each.places.runs for each in users), *_runs_here()]
    _gc(uri, delete, timedelta(hours=min_age_h), asked, runs, f" --project {project}" if project else "")


def _forget(uri: str, user: str) -> None:
    """For a stack whose state is lost, which nobody can destroy any more."""
    if not re.fullmatch(r"[^/]+/[^/]+", user):
        fail(f"--forget is '{user}'; give OWNER/STACK, as `slipway gc` lists them")
    removed = uses.forget_user(open_store(uri), user)
    typer.echo(f"forgot {removed} uses of {user}" if removed else f"nothing is known of {user}")


def _places_of(uri: str, users: list[Settings]) -> list[Asked]:
    """Where hosts run that may read this store."""
    asked = billed_places.of(each for each in users if isinstance(each, Terms))
    if not asked and in_bucket(uri):
        raise StoreError(
            f"no stack of stacks/ uses {uri}, so it is not known in which project hosts run that do; "
            f"give --project PROJECT"
        )
    return asked


def _running(store: Store, asked: list[Asked]) -> Named:
    """What hosts install that run in these places, whoever has started them: a record of use may be missing."""
    bundles: set[str] = set()
    for target, place in asked:
        try:
            running = target.billed(place, typer.echo)
        except TargetError as error:
            raise StoreError(f"{error}; {SO_NOTHING}") from None
        for each in running:
            # from here or from a mirror of it, which spells its own name: the hash says which bundle it is
            if each.bundle in bundles or (each.bundle and store.has(bundle_key(each.bundle))):
                bundles.add(each.bundle)
                typer.echo(f"  in use by {each.name}, which is {each.state}")
    return _with_wheelhouses(store, bundles)


def _awaited(store: Store, entries: list[Entry]) -> Named:
    """What hosts install that have not booted yet: the word of the `up` before may be gone by then."""
    bundles: set[str] = set()
    for key, stack in wanted.of_entries(entries).items():
        bundle = wanted.read(store, key)
        if bundle and store.has(bundle_key(bundle)):
            bundles.add(bundle)
            typer.echo(f"  in use by hosts of {stack}, which learn it when they boot")
    return _with_wheelhouses(store, bundles)


def _with_wheelhouses(store: Store, bundles: set[str]) -> Named:
    archives = [store.read(bundle_key(bundle)) for bundle in bundles]
    return Named(frozenset(map(wheelhouse_of, archives)), frozenset(bundles))


def _gc_of_texts(stack: str, delete: bool, min_age: timedelta) -> None:
    """Of the foundation's bucket alone: what somebody has pushed elsewhere is theirs."""
    place = stack_settings.from_file(stack).places.data if stack_file(stack).is_file() else ""
    if not in_bucket(place):
        fail(f"--data is of a stack whose prepared text lies in a bucket, which '{stack}' is not; name one of stacks/")
    note_storage_of(place)
    users = [each for each in every(Settings) if each.places.data == place]
    store = open_store(place)
    entries = list(store.entries())  # before the names, as below
    named = _texts_in_use(users)
    gone = unused_texts(entries, named, datetime.now(UTC), min_age)
    typer.echo(f"{place}: {len(named)} texts are read by stacks, by what runs, or by runs of which a record is kept")
    offered = [
        _Offered(
            text.bytes,
            text.updated,
            f"{text.content}, {len(text.entries)} files",
            lambda text=text: _delete_text(store, text),
        )
        for text in gone
    ]
    _show_or_delete(offered, "texts", f"slipway gc {stack} --data --delete", delete)


@dataclass(frozen=True)
class _Offered:
    """What nothing names; `delete` is False where it is gone already, or has come into use since it was listed."""

    bytes: int
    updated: datetime
    said: str
    delete: Callable[[], bool]


def _show_or_delete(offered: Sequence[_Offered], what: str, command: str, delete: bool) -> None:
    if not offered:
        typer.echo("nothing to delete")
        return
    now = datetime.now(UTC)
    for one in offered:
        typer.echo(f"{decimal(one.bytes):>12}  {(now - one.updated).days:>5} days  {one.said}")
    if not delete:
        total = decimal(sum(one.bytes for one in offered))
        typer.echo(f"{len(offered)} {what}, {total} would go; delete them with: {command}")
        return
    deleted = [one.bytes for one in offered if one.delete()]
    typer.echo(f"deleted {len(deleted)} {what}, {decimal(sum(deleted))}")


def _texts_in_use(users: list[Settings]) -> frozenset[str]:
    """By the states of stacks, the records of runs and the bundles that anybody uses, has running or waits for."""
    runs = sorted({_whole_bucket(each.places.runs) for each in users})  # also of stacks that are a colleague's
    named = by_stacks()[0] | by_records([*runs, *_runs_here()])[0]
    texts = set(named.texts)
    for uri in {each.places.artifacts: None for each in users}:
        store = open_store(uri)
        entries = list(store.entries())
        used = uses.of_entries(entries)
        running = _running(store, _places_of(uri, users))
        bundles = named.bundles | uses.named(used).bundles | _awaited(store, entries).bundles | running.bundles
        for bundle in bundles:
            if store.has(bundle_key(bundle)):
                texts.add(text_of(run_spec_in(store.read(bundle_key(bundle)))))
            elif user := next((use.user for use in used if use.bundle == bundle), ""):
                raise StoreError(
                    f"{user} has begun an `up` whose bundle {bundle} is not in {uri}, so it is not known which text it "
                    f"reads, and nothing may be deleted; run it again later, or once: slipway gc {uri} --forget {user}"
                )
    return frozenset(texts - {""})


def _runs_here() -> list[str]:
    return [str(runs) for runs in WORK.glob("*/runs")]


def _whole_bucket(place: str) -> str:
    return "/".join(place.split("/")[:3]) if in_bucket(place) else place


def _delete_text(store: Store, text: StoredText) -> bool:
    """False where an `up` has come to use it since it was listed, or somebody else deletes it."""
    first, *rest = text.entries
    if not _delete(store, first):
        return False
    for entry in rest:
        store.delete(entry.key)
    return True


def _gc(uri: str, delete: bool, min_age: timedelta, asked: list[Asked], runs: list[str], again: str) -> None:
    store = open_store(uri)
    # The listing comes before the names: what a push adds meanwhile is not in it.
    entries = list(store.entries())
    now = datetime.now(UTC)
    in_stacks, stacks = by_stacks()
    in_records, records = by_records(runs)
    used = uses.of_entries(entries)
    named = in_stacks | in_records | uses.named(used) | _awaited(store, entries) | _running(store, asked)
    kept = kept_wheelhouses(entries, named, now, min_age)
    sums = {each: store.read(wheelhouse_key(each)).decode(errors="replace") for each in kept}
    gone = unreferenced(entries, named, sums, now, min_age)
    names = f"{len(stacks)} stacks and {records} run records name {len(named.wheelhouses)} wheelhouses and "
    typer.echo(f"{store.uri}: {names}{len(named.bundles)} bundles")
    for user in dict.fromkeys(use.user for use in used):
        last = max(updated for use, updated in used.items() if use.user == user)
        typer.echo(f"  in use by {user}, whose last `up` was {(now - last).days} days ago")
    if not asked and uri != str(ARTIFACTS):
        typer.echo("  nobody could be asked what runs with it: what no stack, use or run record names is offered")
    offered = [
        _Offered(entry.size, entry.updated, entry.key, lambda entry=entry: _delete(store, entry)) for entry in gone
    ]
    _show_or_delete(offered, "objects", f"slipway gc {uri}{again} --delete", delete)


def _delete(store: Store, entry: Entry) -> bool:
    """False where the object is gone already, or a push has come to use it since it was listed."""
    with contextlib.suppress(NoObjectError):
        if store.updated(entry.key) == entry.updated:
            store.delete(entry.key)
            return True
    return False
