"""The fields of a custom job beside its machines and containers: who, where, names, labels. Pure.

Owns which of them a stack has, under which key. Refuses to own machines, their terms and what they run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from infra import names
from infra.hardware import Accelerator
from infra.importing.draft import Draft, fields, shown
from infra.importing.job_text import JobNode
from infra.importing.machines import JobPlace

_DEFAULT_ACCOUNT = "-compute@developer.gserviceaccount.com"
_NETWORK = re.compile(r"projects/[0-9]+/global/networks/[^/]+")
_PLACED = re.compile(r"projects/[^/]+/locations/(?P<region>[^/]+)/(?P<kind>\w+)/.+")
_BUCKET = re.compile(r"gs://[a-z0-9][-a-z0-9_.]{1,220}(/|$)")
_HOSTS = re.compile(r"(?<![a-zA-Z0-9])(\d{1,4})[-_ ]?(?:vms?|nodes?|hosts?|machines?)(?![a-zA-Z])", re.IGNORECASE)
_RESERVED = (names.OWNER_LABEL, names.STACK_LABEL, names.STATE_LABEL, names.MADE_LABEL)

_OF_THE_SERVICE = "is the service's own word on a job that was made"
_DROPPED = {
    **dict.fromkeys(("state", "createTime", "startTime", "endTime", "updateTime", "error"), _OF_THE_SERVICE),
    **dict.fromkeys(("webAccessUris", "satisfiesPzs", "satisfiesPzi"), _OF_THE_SERVICE),
    "encryptionSpec": "what a run writes is in the foundation's buckets, under the foundation's key",
    "trainingTaskDefinition": "a stack makes a custom job, without a pipeline around it",
    "modelToUpload": "checkpoints stay in the run's bucket; nothing is registered as a model",
    "modelId": "checkpoints stay in the run's bucket; nothing is registered as a model",
    "persistentResourceId": "machines are asked for with the job, and end with it",
    "enableDashboardAccess": "`slipway watch` and `status` show a training",
    "experiment": "metrics are in the run's record; nothing is sent to Vertex AI's experiments",
    "experimentRun": "metrics are in the run's record; nothing is sent to Vertex AI's experiments",
    "models": "a training starts from what `slipway:training` names",
    "reservedIpRanges": "no key of a stack names addresses",
    "pscInterfaceConfig": "no key of a stack attaches machines to a network so; peered_network peers them",
    "protectedArtifactLocationId": "artifacts are in the foundation's bucket",
}


def judge(job: Mapping[str, JobNode], row: Accelerator, draft: Draft, place: JobPlace) -> None:
    for name, node in job.items():
        if name in _DROPPED:
            draft.account.dropped(node.paths, shown(node), _DROPPED[name])
        elif name in _FIELDS:
            _FIELDS[name](node, draft, place)
    if display_name := job.get("displayName"):
        why = "a job is named after its stack, so that it is found again and made once"
        draft.account.dropped(display_name.paths, shown(display_name), why)
        hosts_of_name(display_name.text, display_name.paths, row, draft)


def hosts_of_name(name: str, paths: Iterable[str], row: Accelerator, draft: Draft) -> None:
    """A name that says how many hosts there are, and is wrong."""
    for found in _HOSTS.finditer(name):
        if int(found[1]) != row.hosts:
            why = f"the name says {found[0]}, but the machines are {row.hosts}, and that holds"
            draft.account.contradictory(tuple(paths), name, why, "accelerator")


def _account(node: JobNode, draft: Draft, _: JobPlace) -> None:
    if node.text.endswith(_DEFAULT_ACCOUNT):
        why = "the project's default account may do almost anything in it; hosts are the foundation's account"
        draft.account.dropped(node.paths, shown(node), why)
    elif node.text:
        draft.keep(node, "service_account", node.text, "it needs the roles of the foundation's account")


def _network(node: JobNode, draft: Draft, _: JobPlace) -> None:
    if "peered_network" in draft.known and not _NETWORK.fullmatch(node.text):
        why = "machines are peered with projects/<project's number>/global/networks/<name>; write it as peered_network"
        draft.account.dropped(node.paths, shown(node), why)
    elif "peered_network" in draft.known:
        draft.keep(node, "peered_network", node.text)
    else:
        draft.account.dropped(node.paths, shown(node), "hosts are in the foundation's network")


def _output(node: JobNode, draft: Draft, _: JobPlace) -> None:
    for name, entry in fields(node, draft.account).items():
        place, earlier = entry.text.rstrip("/"), draft.keys.get("runs")
        if name != "outputUriPrefix" or not _BUCKET.match(place):
            draft.account.dropped(entry.paths, shown(entry), "is no place in a bucket")
        elif earlier and earlier != place:
            why = f"base_output_directory of MaxText is {earlier}, and that holds"
            draft.account.contradictory(entry.paths, shown(entry), why, "runs")
        else:
            why = "in a directory of the stack's name; hosts need roles/storage.objectUser on that bucket"
            draft.keep(entry, "runs", place, why)


def _tensorboard(node: JobNode, draft: Draft, place: JobPlace) -> None:
    found = _PLACED.fullmatch(node.text)
    if not found:
        draft.account.dropped(node.paths, shown(node), "is no projects/<project>/locations/<region>/tensorboards/<id>")
        return
    place.regions.setdefault(found["region"], node.paths)
    zone = next(iter(place.zones), "")
    if zone and zone.rpartition("-")[0] != found["region"]:
        draft.account.dropped(node.paths, shown(node), "a job and its TensorBoard are in one region")
    else:
        draft.keep(node, "tensorboard", node.text)


def _web_access(node: JobNode, draft: Draft, _: JobPlace) -> None:
    if node.value is True and "web_access" in draft.known:
        draft.keep(node, "web_access", True, "people who may see the job get a shell in its containers")
    else:
        draft.account.dropped(
            node.paths, shown(node), "is off without being said" if not node.value else "is not there"
        )


def _labels(node: JobNode, draft: Draft, _: JobPlace) -> None:
    kept: dict[str, str] = {}
    for name, entry in node.entries.items():
        if name in _RESERVED:
            draft.account.dropped(entry.paths, shown(entry), "is set by Slipway")
        elif not names.LABEL_KEY.fullmatch(name) or not names.LABEL_VALUE.fullmatch(entry.text):
            draft.account.dropped(entry.paths, shown(entry), "is not one of Google's labels: a-z, 0-9, '_' and '-'")
        else:
            kept[name] = entry.text
            draft.account.kept(entry.paths, shown(entry), f"labels.{name}")
    if kept:
        draft.keys["labels"] = kept


def _name(node: JobNode, draft: Draft, place: JobPlace) -> None:
    """projects/P/locations/R/customJobs/N of a job that was made."""
    if found := _PLACED.fullmatch(node.text):
        place.regions.setdefault(found["region"], node.paths)
        draft.account.renamed(node.paths, shown(node), "regions", "where the job was made")
    else:
        draft.account.dropped(node.paths, shown(node), _OF_THE_SERVICE)


def _project(node: JobNode, draft: Draft, _: JobPlace) -> None:
    if problem := names.project_problem(node.text):
        draft.account.dropped(node.paths, shown(node), problem)
    else:
        draft.keys["project"] = node.text
        draft.account.renamed(node.paths, shown(node), "project")


def _region(node: JobNode, draft: Draft, place: JobPlace) -> None:
    place.regions.setdefault(node.text, node.paths)
    draft.account.renamed(node.paths, shown(node), "regions")


_FIELDS = {
    "projectId": _project,
    "region": _region,
    "serviceAccount": _account,
    "network": _network,
    "baseOutputDirectory": _output,
    "tensorboard": _tensorboard,
    "enableWebAccess": _web_access,
    "labels": _labels,
    "name": _name,
}
