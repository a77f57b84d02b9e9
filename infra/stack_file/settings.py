"""The stack file as typed, frozen settings, and every check that needs only the stack file and tables.

Owns: reading a stack, the keys of every stack that trains, their types and the rules between them. Refuses to own the
keys of one target (infra/targets/<target>/settings.py), what is derived from them (infra/runs/run_plan.py) and anything
that looks at the world (infra/targets/).
"""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from infra import hardware, names
from infra.hardware import Accelerator
from infra.paths import SHARED, STACKS, stack_file
from infra.sentences import SentenceError
from infra.stack_file import data_source, gpu_attention, maxtext_fields, model_file, stack_yaml
from infra.stack_file.stack_yaml import NAMESPACE, StackFileError
from infra.targets import places, registry
from infra.targets.errors import TRAINS_NOTHING
from infra.targets.places import Places
from infra.targets.registry import Target
from training.run_spec import MaxTextValue
from training.sharding import MeshError, resolve_mesh

SYNTHETIC = "synthetic"


class SettingsError(SentenceError, ValueError):
    """The stack file cannot be used; the message names the key and what to write instead, on one line."""

    def __init__(self, message: str) -> None:
        super().__init__(re.sub(r"[\r\n]+", " ", message))  # a value with a line break is quoted in some


class OnDestroy(StrEnum):
    KEEP = "keep"
    DELETE = "delete"


class FitCheck(StrEnum):
    CHECKED = "checked"
    UNCHECKED = "unchecked"


class Channel(StrEnum):
    STABLE = "stable"
    NIGHTLY = "nightly"


def _empty_is_absent(value: object) -> object:
    return None if value == "" else value


type Absent[T] = Annotated[T | None, BeforeValidator(_empty_is_absent)]


def without[T](problem: Callable[[T], str | None]) -> AfterValidator:
    """Refuses a value of which `problem` has one, in its words."""

    def check(value: T) -> T:
        if sentence := problem(value):
            raise ValueError(sentence)
        return value

    return AfterValidator(check)


def _owner_problem(owner: str) -> str | None:
    if names.label_value(owner):
        return None
    return "has no letter or digit; give a name or an e-mail address, for it labels what is billed"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # only the class that is used is built


class DataOptions(_Frozen):
    """How text becomes records; sizes in bytes, `heldout_fraction` of documents."""

    text_key: str = Field("text", min_length=1)
    vocab_size: int = Field(4096, ge=300, le=1_000_000)
    tokenizer: Absent[str] = None
    heldout_fraction: float = Field(0.02, gt=0, lt=1)
    record_bytes: int = Field(8192, ge=0)
    max_epochs: int = Field(1, ge=1, le=1000)
    seed: int = Field(0, ge=0, lt=2**31)


class StackSettings(_Frozen):
    """Any stack. A target's settings are a subclass, with its own keys."""

    stack: str
    target: Target
    """The kind of place the stack runs - `local` (host processes on this machine), `tpu-vm` (TPU slices by a queued
    resource), `gke-tpu` and `gke-gpu` (a GKE cluster with TPU slices or GPU nodes), `vertex` (GPU machines of a custom
    job of Vertex AI), `kubernetes` (a cluster that exists already) or `foundation` (what those at Google stand on, one
    per region)."""

    @property
    def place(self) -> str:
        """The region that it is in; `-` is this machine."""
        return "-"


class Owned(StackSettings):
    """A stack that is paid for: `owner` labels what is billed, and what it uses of a shared artifact store."""

    owner: Annotated[str, Field(min_length=1), without(_owner_problem)]
    """Who answers for the bill - a name or an e-mail address, the label slipway-owner of everything billed."""


class Workload(_Frozen):
    """What is trained on which slices, wherever those are."""

    stack: str
    accelerator: Annotated[str, AfterValidator(hardware.spelled)]
    """A row of infra/hardware.yaml, spelled as its vendor does or, of TPUs, by its topology (tpu7x-2x2x2 is tpu7x-16);
    `cpu-8` is 2 hosts x 4 virtual CPU devices."""
    slices: int = Field(1, ge=1, le=512)
    """How many slices of that accelerator train together."""
    steps: int = Field(ge=1, le=100_000_000)
    """The step the run ends at. More steps than before resumes the run."""
    data: str = Field("stdlib", min_length=1)
    """What it trains on - a glob, file or directory of text or JSON lines, several separated by ';', `stdlib` (the
    interpreter's own standard library), `synthetic`, or in the cloud what `slipway data push` has named gs://... (pods
    in a cluster of your own: s3://...)."""
    data_options: DataOptions = DataOptions.model_construct()
    """text_key, vocab_size, tokenizer, heldout_fraction, record_bytes, max_epochs, seed."""
    run_name: Absent[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]] = None
    """Names the run. Empty - the stack plus a short hash of its settings, so other settings are another run."""
    loss_spike: Absent[Annotated[float, Field(gt=1, allow_inf_nan=False)]] = None
    """A loss of more than this many times the median of the last 64 ends the training, like 3; empty - no bound."""
    training: dict[str, Any] = {}
    """MaxText fields, checked against training/maxtext_schema.json."""
    channel: Channel = Channel.STABLE
    """`stable` or `nightly` - which lock of training/locks/ the hosts install."""
    model_file: Absent[str] = None  # written as `training.model_file`
    overlay: Absent[str] = None
    """A directory of wheels that replace the locked ones of their packages (a fork, a nightly jax or libtpu)."""
    python_archive: Absent[str] = None
    """A relocatable CPython 3.12 (tar.gz) for the hosts, or `locked` for the release of training/locks/python.toml,
    which hosts whose image has no 3.12 (TPU VMs) get where this is empty."""

    hosts_have_python: ClassVar[bool] = True  # 3.12, before anything is installed

    @property
    def hosts_mount_data(self) -> bool:
        """Whether hosts read the text where it lies, in a bucket."""
        return False

    @property
    def compiler_flags(self) -> tuple[str, ...]:
        """Of XLA, those that the stack says itself."""
        return ()

    @property
    def row(self) -> Accelerator:
        return hardware.find(self.accelerator)

    @property
    def chips(self) -> int:
        """Of all slices."""
        return self.row.chips * self.slices

    @property
    def network_of_gpus(self) -> str:
        """By which NCCL reaches other hosts with GPUs, as training/gpu_environment.py names it; empty: by none."""
        return (self.row.gpu_network or "") if self.row.hosts * self.slices > 1 else ""

    @property
    def sources(self) -> tuple[str, ...]:
        """Inputs of data preparation; empty for synthetic data."""
        if self.data == SYNTHETIC:
            return ()
        return tuple(part.strip() for part in self.data.split(";") if part.strip())


type Place = Absent[Annotated[str, without(places.problem)]]


class Settings(Workload, StackSettings, ABC):
    """A stack that trains."""

    artifacts: Place = None
    """Where `up` writes wheels and bundles, instead of the target's own place - a directory, gs://bucket[/path], or
    s3://bucket[/path] of pods in a cluster of your own."""
    artifacts_on_hosts: Place = None
    """Where hosts read them, if that is another way to the same files: a mount, a mirror."""
    runs: Place = None
    """Where checkpoints, metrics and run records go, in a directory of the stack's name."""
    fit: FitCheck = FitCheck.CHECKED
    """`checked` or `unchecked` - whether `up` needs to know that the train step fits an accelerator's HBM."""
    fit_timeout_s: Annotated[int, Field(ge=1, le=86_400)] = 300
    """How many seconds a preview may compile for an answer that is not known yet."""

    @property
    @abstractmethod
    def places(self) -> Places:
        """Where its files lie: at the target's own places, where the stack names no others."""

    @property
    def text_place(self) -> str:
        """Where the run's text lies, or lies below; `data` may name another place of that kind."""
        return self.places.data

    def placed(self, artifacts: str, runs: str, data: str = "") -> Places:
        """`places`, of what a target has where the stack names no other. runs: of this stack."""
        artifacts = self.artifacts or artifacts
        runs = places.below(self.runs, self.stack) if self.runs else runs
        return Places(artifacts, self.artifacts_on_hosts or artifacts, runs, data)

    def check_place(self) -> None:
        """What the target asks of the accelerator and of where it is. Raises SettingsError."""


def from_engine(
    stack: str, config: Mapping[str, str], secret_keys: Iterable[str] = (), text: str | None = None
) -> StackSettings:
    """Settings from the engine's configuration: every value a string, objects and lists as JSON.

    The engine fills in the defaults of Pulumi.yaml's schema, for every target's keys; they are left out again, because
    what a stack does not say is the settings' own default (and no target knows another's keys). What it cannot tell
    any more is in the stack file's `text`, where there is one: it refuses whatever from_text refuses.
    """
    written = None if text is None else _written(stack, text)
    settings = None if written is None else _of_values(stack, written)
    values: dict[str, Any] = {}
    for key, handed_over in config.items():
        if not key.startswith(NAMESPACE):
            continue
        name = key.removeprefix(NAMESPACE)
        if key in secret_keys:
            raise SettingsError(f"stacks/Pulumi.{stack}.yaml has {stack_yaml.secret(name)}")
        value = stack_yaml.of_engine(name, handed_over)
        if not stack_yaml.is_default(name, value):
            values[name] = value
    said = {name: value for name, value in (written or {}).items() if not stack_yaml.is_default(name, value)}
    return settings if settings and said == values else _of_values(stack, values)


def from_text(stack: str, text: str) -> StackSettings:
    """Settings from a stack file's text, read as the engine reads it. Raises SettingsError for no mapping, too."""
    return _of_values(stack, _written(stack, text))


def _written(stack: str, text: str) -> dict[str, Any]:
    try:
        return stack_yaml.written(text)
    except StackFileError as error:
        raise SettingsError(f"stacks/Pulumi.{stack}.yaml {error}") from None


def _of_values(stack: str, values: Mapping[str, Any]) -> StackSettings:
    """Settings of what a stack says, whoever has read it."""
    try:
        typed = {name: stack_yaml.typed(name, value) for name, value in values.items()}
    except StackFileError as error:
        raise SettingsError(f"{error} (stacks/Pulumi.{stack}.yaml)") from None
    return check(stack, typed)


def any_from_file(stack: str) -> StackSettings:
    """Settings of a stack file. Raises SettingsError if there is none, or more than one, or it is not UTF-8."""
    path = stack_file(stack)
    text = read(stack)
    if text is None and path.with_suffix(".yml").exists():
        raise SettingsError(f"stack '{stack}' is in stacks/{path.stem}.yml; rename it to {path.name}")
    if text is None:
        raise SettingsError(f"stack '{stack}' has no file stacks/{path.name}; there are: {', '.join(stack_names())}")
    if path.with_suffix(".yml").exists():
        raise SettingsError(
            f"stack '{stack}' has two files, {path.name} and {path.stem}.yml; remove the second, which is not read"
        )
    return from_text(stack, text)


def read(stack: str) -> str | None:
    """The text of a stack's file, or None where there is none. Raises SettingsError if it is not UTF-8."""
    path = stack_file(stack)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"stacks/{path.name} is not UTF-8 text: {error.reason} at byte {error.start}; save it as UTF-8"
        ) from error


def from_file(stack: str) -> Settings:
    """Settings of a stack that trains. Raises SettingsError as any_from_file does, and for a foundation."""
    return that_trains(any_from_file(stack))


def that_trains(settings: StackSettings) -> Settings:
    if not isinstance(settings, Settings):
        raise SettingsError(f"stack '{settings.stack}' {TRAINS_NOTHING}")
    return settings


def stack_names() -> list[str]:
    """Every stack that has a file."""
    return sorted(path.name[len("Pulumi.") : -len(".yaml")] for path in STACKS.glob("Pulumi.*.yaml"))


def every[S: StackSettings](kind: type[S], skip_unusable: bool = False) -> list[S]:
    """Of each stack file of a kind. Raises SettingsError for a file that cannot be used, or leaves it out."""
    found: list[S] = []
    for name in stack_names():
        try:
            settings = any_from_file(name)
        except SettingsError:
            if skip_unusable:
                continue
            raise
        if isinstance(settings, kind):
            found.append(settings)
    return found


def check(stack: str, values: Mapping[str, Any]) -> StackSettings:
    """Typed settings from plain values; the one place where a stack's rules are applied."""
    if stack in SHARED or not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,99}", stack):
        raise SettingsError(
            f"'{stack}' cannot name a stack: use lower-case letters, digits, '-' and '.', "
            f"and none of: {', '.join(sorted(SHARED))}"
        )
    kind: type[StackSettings] = registry.of(_target(stack, values)).settings()
    if unsaid := parts_unsaid(kind):
        raise SettingsError(f"{kind.__name__} does not say {', '.join(unsaid)}, as docs/adding-a-target.md has it")
    try:
        settings = kind.model_validate(_with_model(values) | {"stack": stack})
        if isinstance(settings, Settings):
            hardware.find(settings.accelerator)
    except (model_file.ModelFileError, hardware.UnknownAcceleratorError) as error:
        raise SettingsError(f"{error} (stacks/Pulumi.{stack}.yaml)") from None
    except ValidationError as error:
        raise SettingsError("; ".join(_sentence(stack, item, kind) for item in error.errors())) from None
    if isinstance(settings, Settings):
        settings.check_place()
        check_training(settings)
        if not settings.sources and settings.data != SYNTHETIC:
            raise SettingsError("data names no input; write a glob, a directory, `stdlib` or `synthetic`")
        options = settings.data_options.model_fields_set
        if settings.sources and (problem := data_source.problem(settings.sources, settings.text_place, options)):
            raise SettingsError(f"data is '{settings.data}' in stacks/Pulumi.{stack}.yaml; {problem}")
    return settings


def parts_unsaid(kind: type[StackSettings]) -> list[str]:
    """What a target's settings leave out that somebody will ask for; no type checker tells."""
    constants = (name for name in kind.__class_vars__ if not hasattr(kind, name))
    return sorted({*kind.__abstractmethods__, *constants})


def check_training(workload: Workload) -> None:
    """The rules of `training:` on its accelerator. Raises SettingsError."""
    for rule in (_training_rule, _attention_rule, _mesh_rule, _batch_rule, _schedule_rule):
        rule(workload)


def _target(stack: str, values: Mapping[str, Any]) -> Target:
    try:
        return Target(values["target"])
    except (KeyError, ValueError):
        said = f"target is {values['target']!r}" if "target" in values else "key 'target' is missing"
        raise SettingsError(
            f"{said} in stacks/Pulumi.{stack}.yaml; write `{NAMESPACE}target:` and one of: {', '.join(Target)}"
        ) from None


def _with_model(values: Mapping[str, Any]) -> dict[str, Any]:
    """`training.model_file` resolved: its fields below the stack's own."""
    if "model_file" in values:
        raise model_file.ModelFileError("model_file belongs under `slipway:training:`")
    training = values.get("training")
    if not isinstance(training, dict) or "model_file" not in training:
        return dict(values)
    own = cast(dict[str, Any], training)
    name = own["model_file"]
    merged = model_file.fields(name) | {key: value for key, value in own.items() if key != "model_file"}
    return {**values, "training": merged, "model_file": name}


def _sentence(stack: str, item: Any, kind: type[BaseModel]) -> str:
    key = ".".join(str(part) for part in item["loc"])
    where = f"stacks/Pulumi.{stack}.yaml"
    if item["type"] == "extra_forbidden":
        known = DataOptions.model_fields if key.startswith("data_options.") else kind.model_fields
        names = [name for name in known if name != "stack"]
        nearest = difflib.get_close_matches(key.split(".")[-1], names, n=1, cutoff=0.5)
        hint = f"nearest: {nearest[0]}" if nearest else f"allowed: {', '.join(names)}"
        return f"unknown key {key!r} in {where}; {hint}"
    if item["type"] == "missing":
        return f"key '{key}' is missing in {where}; add `{NAMESPACE}{key}: ...`"
    if item["type"] == "tuple_type":
        return f"{key} is {item['input']!r} in {where}: write a list, one `- value` per line or [a, b]"
    if item["type"] == "value_error":  # a validator's own words
        said = str(item["ctx"]["error"])
        return f"{said} ({where})" if said.startswith(key) else f"{key} is {item['input']!r} in {where}: {said}"
    message = item["msg"][0].lower() + item["msg"][1:]
    return f"{key} is {item['input']!r} in {where}: {message}"


def _training_rule(workload: Workload) -> None:
    problems = [text for key, value in workload.training.items() if (text := maxtext_fields.problem(key, value))]
    if problems:
        raise SettingsError("; ".join(problems))


def _attention_rule(workload: Workload) -> None:
    if workload.row.platform != "gpu":
        return
    if problem := gpu_attention.problem(workload.data != SYNTHETIC, workload.training):
        raise SettingsError(f"training: {problem}")


def _mesh_rule(workload: Workload) -> None:
    try:
        resolve_mesh(workload.training, workload.row.devices, workload.slices)
    except MeshError as error:
        raise SettingsError(f"training: {error} ({workload.row.name} x {workload.slices})") from None


def _batch_rule(workload: Workload) -> None:
    devices = workload.row.devices * workload.slices
    batch = workload.training.get("per_device_batch_size", 12.0)  # MaxText's default
    if batch <= 0 or batch != int(batch):
        raise SettingsError(
            f"training.per_device_batch_size is {batch}: {batch} x {devices} devices does not divide evenly over the "
            f"devices; give a whole number, from 1"
        )
    for key in ("gradient_accumulation_steps", "max_target_length"):
        if int(workload.training.get(key, 1)) < 1:
            raise SettingsError(f"training.{key} is {workload.training[key]}; give a whole number from 1")


def _schedule_rule(workload: Workload) -> None:
    schedule = workload.training.get("learning_rate_schedule_steps", -1)
    if schedule != -1 and schedule < workload.steps:
        raise SettingsError(
            f"training.learning_rate_schedule_steps is {schedule}, but steps is {workload.steps}: "
            f"after the schedule the learning rate is 0; give at least {workload.steps}, or leave it out"
        )


def typed_training(workload: Workload) -> dict[str, MaxTextValue]:
    """`training:` as the run spec holds it: 1 and 1.0 are the same number, so they name the same run."""
    fields = maxtext_fields.schema()["fields"]
    return {key: _typed(value, fields[key]["types"]) for key, value in workload.training.items()}


def _typed(value: Any, types: list[str]) -> MaxTextValue:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if "number" in types:
        return float(value)
    return int(value) if "integer" in types else value
