"""A custom job of Vertex AI, as people keep it in a file, as a stack: which keys, and what became of the file's. Pure.

Owns the order in which all is judged, and where a job runs. What the judgements are is in the other modules of this
folder; what a stack may say is checked as any stack file is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from infra.hardware import Accelerator
from infra.importing import containers, environment, job_fields, launcher_config, machines, secret_words, stack_text
from infra.importing.draft import Draft, fields
from infra.importing.findings import KeyFinding
from infra.importing.job_text import JobNode, read
from infra.importing.machines import ImportRefusedError, JobPlace
from infra.names import PLACEHOLDER_PROJECT
from infra.pods import gpu_networks
from infra.pods.gpu_terms import GpuTerms
from infra.preview import new_stack
from infra.preview.new_stack import NewStack
from infra.stack_file import settings as stack_settings
from infra.stack_file.cloud_training import CloudTrainingSettings
from infra.stack_file.settings import Settings
from infra.targets import registry
from infra.targets.contract import TargetContract
from infra.targets.host_variables import HostVariable
from infra.targets.registry import Target

_STEPS = 1000
_SPECS = ("jobSpec", "trainingTaskInputs")


@dataclass(frozen=True)
class ImportTerms:
    """What a job's file does not say. region, zone: where it is none of the file's; target: empty for Vertex AI."""

    target: str = ""
    project: str = PLACEHOLDER_PROJECT
    owner: str = ""
    region: str = ""
    variant: str = ""


@dataclass(frozen=True)
class Imported:
    """A stack, by name and text, and what became of each key of the file."""

    stack: str
    text: str
    settings: Settings
    findings: tuple[KeyFinding, ...]
    assumed: tuple[str, ...]


def imported(
    text: str, file_name: str, wanted: ImportTerms, hosts_of: Callable[[Settings], Sequence[HostVariable]]
) -> Imported:
    """hosts_of: what hosts of a stack have in their environment. Raises SentenceError where no stack can be made."""
    root = read(text, file_name)
    draft = Draft(())
    job = _job(root, draft)
    if "workerPoolSpecs" not in job:
        raise ImportRefusedError(
            f"{file_name} has no workerPoolSpecs, so it is no custom job of Vertex AI; give one, as REST takes it, or "
            f"its spec, as gcloud's --config does"
        )
    target = _target(wanted.target)
    draft.known = target.settings().model_fields
    place = JobPlace()
    pools = machines.pools(job.pop("workerPoolSpecs"), draft)
    row = machines.accelerator(pools, draft)
    machines.terms(pools, job.pop("scheduling", None), draft, place)
    machines.disks(pools, draft)
    variables = environment.of_pools(pools, draft)
    if not containers.judge(pools, variables, row, draft):
        _default_training(row, draft)
    variables = environment.follow_from(variables, row, draft)
    job_fields.judge(job, row, draft, place)
    job_fields.hosts_of_name(file_name, (), row, draft)
    stack = _name(target, row, draft, wanted)
    if wanted.project != PLACEHOLDER_PROJECT:
        draft.keys["project"] = wanted.project
    keys = _head(target, wanted, draft) | _where(target, row, place, draft, wanted) | draft.keys
    origin = f"imported from {file_name}, a custom job of Vertex AI, by `slipway import vertex-json`"
    written = stack_text.write(keys, draft.training, origin)
    settings = _settings(stack, written)
    flags = environment.judge(variables.values(), hosts_of(settings), _plugin(settings), draft)
    if flags and "xla_flags" in draft.known:
        written = stack_text.write(keys | {"xla_flags": " ".join(map(str, flags))}, draft.training, origin)
    _unread(root, draft)
    if secret_words.masked(written, draft) != written:
        raise ImportRefusedError(f"a value of {file_name} that looks like a secret would be in the stack; take it out")
    findings = [_without_secrets(finding, draft) for finding in draft.account.merged()]
    return Imported(stack, written, _settings(stack, written), tuple(findings), tuple(draft.assumed))


def _settings(stack: str, written: str) -> Settings:
    """As every command reads them. Raises SettingsError for what no stack may be."""
    return stack_settings.that_trains(stack_settings.from_text(stack, written))


def _without_secrets(finding: KeyFinding, draft: Draft) -> KeyFinding:
    part, why = (secret_words.masked(text, draft) for text in (finding.part, finding.why))
    return replace(finding, part=part, why=why)


def _job(root: JobNode, draft: Draft) -> dict[str, JobNode]:
    """All fields of the job, whether REST's job or the spec alone, as gcloud's --config has it."""
    top = fields(root, draft.account)
    if "studySpec" in top or "trialJobSpec" in top:
        raise ImportRefusedError(
            "the file is a job of hyperparameter tuning, which is many trainings; give one of them"
        )
    for name in _SPECS:
        if name in top:
            own = fields(top.pop(name), draft.account)
            for twice in own.keys() & top.keys():
                why = f"is given beside {name} and in it, and that holds"
                draft.account.contradictory((*top[twice].paths, *own[twice].paths), twice, why)
            top |= own
    return launcher_config.as_job(top, draft) if launcher_config.is_one(top) else top


def _target(name: str) -> TargetContract[Any, Any]:
    target = registry.named(name or Target.VERTEX)
    if target is None or not issubclass(target.settings(), CloudTrainingSettings):
        raise ImportRefusedError(f"--target is '{name}', where no training in Google's cloud runs; leave it out")
    return target


def _default_training(row: Accelerator, draft: Draft) -> None:
    model = new_stack.model_for(row).name
    draft.training |= {"model_name": model, "per_device_batch_size": 1, "max_target_length": 2048}
    draft.assumed.append(
        f"nothing in the file starts MaxText, so training is what `slipway stack new {row.name}` writes: {model}"
    )


def _name(target: TargetContract[Any, Any], row: Accelerator, draft: Draft, wanted: ImportTerms) -> str:
    """As `slipway stack new` names one of that size."""
    tier = str(draft.keys.get("tier", "on-demand"))
    return NewStack(row.name, (), 1, tier, wanted.variant, wanted.project, target=target.name).name


def _head(target: TargetContract[Any, Any], wanted: ImportTerms, draft: Draft) -> dict[str, Any]:
    """The keys of a stack that no job has."""
    if wanted.project == PLACEHOLDER_PROJECT and "project" not in draft.keys:
        draft.assumed.append(
            "project is my-project, which only previews, since a job's file names none; give --project"
        )
    if not wanted.owner:
        draft.assumed.append(f"owner is {new_stack.OWNER}, who labels what is billed; give --owner")
    if "steps" not in draft.keys:
        draft.assumed.append(f"steps is {_STEPS:,}, since the file says none")
    if "data" not in draft.keys:
        draft.assumed.append("data is synthetic, until you name text (docs/data.md)")
    return {
        "target": target.name,
        "project": wanted.project,
        "owner": wanted.owner or new_stack.OWNER,
        "steps": _STEPS,
        "data": "synthetic",
    }


def _where(
    target: TargetContract[Any, Any], row: Accelerator, place: JobPlace, draft: Draft, wanted: ImportTerms
) -> dict[str, Any]:
    """Regions, or a zone where the target asks for one. A reservation's zone holds, since it is nowhere else."""
    zone = next(iter(place.zones), "")
    said = {zone.rpartition("-")[0]: place.zones[zone]} if zone else {}
    for region, paths in place.regions.items():
        if said and region not in said:
            why = f"is in {region}, and the reservation in {next(iter(said))}, which holds"
            draft.account.contradictory(paths, region, why)
        said.setdefault(region, paths)
    region = next(iter(said)) if zone else wanted.region or next(iter(said), "")
    if zone and wanted.region not in ("", region):
        raise ImportRefusedError(f"--region is {wanted.region}, but the reservation is in {zone}; leave --region out")
    if not region:
        there = ", ".join(dict.fromkeys(each.rpartition("-")[0] for each in row.zones))
        raise ImportRefusedError(
            f"the file does not say where the job runs, since that stands in the address it is sent to; give --region, "
            f"one of: {there}"
        )
    if "regions" in target.settings().model_fields:
        return {"regions": [region]}
    zones = [zone] if zone else [each for each in row.zones if each.rpartition("-")[0] == region][:1]
    return {"zones": zones} if zones else {"region": region}


def _plugin(settings: Settings) -> str:
    """NCCL's plugin between the hosts, as sentences name it; empty where there is none."""
    version = gpu_networks.plugin(settings.network_of_gpus) if isinstance(settings, GpuTerms) else ""
    return f"NCCL's plugin {version}" if version else ""


def _unread(root: JobNode, draft: Draft) -> None:
    """What nothing has asked for."""
    known = draft.account.paths
    for leaf in root.leaves():
        if leaf.path not in known:
            empty = isinstance(leaf.value, dict | list) or leaf.value in ("", None)
            why = "is empty" if empty else "is no field of a custom job that Slipway knows"
            draft.account.dropped(leaf.paths, leaf.path.rpartition(".")[2], why)
