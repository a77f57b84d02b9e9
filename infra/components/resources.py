"""The program's side of our provider: one typed class per resource, inputs as in infra/providers/."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pulumi

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Ours(pulumi.CustomResource):
    """A resource of our provider: every field of `inputs` is one of its inputs."""

    def __init__(
        self, token: str, name: str, inputs: DataclassInstance, outputs: tuple[str, ...], opts: pulumi.ResourceOptions
    ) -> None:
        props: dict[str, Any] = {field.name: getattr(inputs, field.name) for field in dataclasses.fields(inputs)}
        super().__init__(token, name, props | dict.fromkeys(outputs), opts)


@dataclasses.dataclass(frozen=True)
class StackGuardArgs:
    directory: str
    on_destroy: str


class StackGuard(Ours):
    """Declare it first: its delete runs last and removes what the state never learned of."""

    def __init__(self, name: str, args: StackGuardArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:index:StackGuard", name, args, (), opts)


@dataclasses.dataclass(frozen=True)
class WheelhouseArgs:
    store: str
    wheelhouse: str
    arguments: list[str]


class Wheelhouse(Ours):
    """The locked wheels of one platform in an artifact store; built where they are absent, kept by destroy."""

    def __init__(self, name: str, args: WheelhouseArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:artifacts:Wheelhouse", name, args, (), opts)


@dataclasses.dataclass(frozen=True)
class BundleArgs:
    store: str
    bundle: str
    run_spec: str
    wheelhouse: str
    lock: str
    model_file: str
    user: str = ""  # owner/stack, in a store that others use too


class Bundle(Ours):
    """Training sources, run spec and lock under one hash; kept by destroy."""

    def __init__(self, name: str, args: BundleArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:artifacts:Bundle", name, args, (), opts)


@dataclasses.dataclass(frozen=True)
class PreparedDataArgs:
    directory: str
    tokens_needed: int
    max_epochs: int
    on_destroy: str
    arguments: list[str]
    artifacts: str
    bundle: str
    root: str


class PreparedData(Ours):
    """A corpus as records; prepared once per content."""

    train_tokens: pulumi.Output[int]
    heldout_tokens: pulumi.Output[int]

    def __init__(self, name: str, args: PreparedDataArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:data:PreparedData", name, args, ("train_tokens", "heldout_tokens"), opts)


@dataclasses.dataclass(frozen=True)
class RunArgs:
    directory: str
    run_spec: str
    wheelhouse: str
    bundle: str
    overlay: list[str]


class Run(Ours):
    """The record of one training."""

    run_id: pulumi.Output[str]

    def __init__(self, name: str, args: RunArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:run:Run", name, args, ("run_id",), opts)


@dataclasses.dataclass(frozen=True)
class LocalHostArgs:
    directory: str
    index: int
    count: int
    coordinator: str
    run_spec: str
    artifacts: str
    bundle: str
    root: str
    cache: str


class LocalHost(Ours):
    """One host of a local stack."""

    health: pulumi.Output[str]

    def __init__(self, name: str, args: LocalHostArgs, opts: pulumi.ResourceOptions) -> None:
        super().__init__("slipway:local:Host", name, args, ("health",), opts)
