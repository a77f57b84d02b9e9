"""The resources of our provider as the program declares them, and how a component orders its children.

Owns the base of all of them and those that several targets declare; a target's own stand in its component.py. What
goes in is the resource's contract (infra/providers/inputs.py), one for program and provider.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

import pulumi

from infra.providers.inputs import (
    JobSetInstallationInputs,
    PreparedDataInputs,
    RunInputs,
    StackGuardInputs,
    StoredBundleInputs,
    StoredWheelhouseInputs,
)
from infra.providers.resource import ResourceInputs


class SlipwayResource[I: ResourceInputs](pulumi.CustomResource):
    """Every field of `inputs` is an input, every annotated attribute of the class an output.

    following: outputs of other resources, by field; each takes the place of what `inputs` has in that field.
    """

    def __init__(
        self,
        name: str,
        inputs: I,
        opts: pulumi.ResourceOptions,
        following: Mapping[str, pulumi.Input[Any]] | None = None,
    ) -> None:
        props: dict[str, Any] = {field.name: getattr(inputs, field.name) for field in dataclasses.fields(inputs)}
        props |= following or {}
        super().__init__(inputs.token, name, props | dict.fromkeys(inspect.get_annotations(type(self))), opts)


class StackGuard(SlipwayResource[StackGuardInputs]):
    """Declare it first: its delete runs last and removes what the state never learned of."""

    identity: pulumi.Output[str]


class StoredWheelhouse(SlipwayResource[StoredWheelhouseInputs]):
    """The locked wheels of one platform in an artifact store; built where they are absent, kept by destroy."""


class StoredBundle(SlipwayResource[StoredBundleInputs]):
    """Training sources, run spec and lock under one hash in an artifact store; kept by destroy."""


class PreparedData(SlipwayResource[PreparedDataInputs]):
    """A corpus as records; prepared once per content."""

    train_tokens: pulumi.Output[int]
    heldout_tokens: pulumi.Output[int]


class Run(SlipwayResource[RunInputs]):
    """The record of one training."""

    run_id: pulumi.Output[str]


class JobSetInstallation(SlipwayResource[JobSetInstallationInputs]):
    """JobSet in a cluster: what is there already, or the release that is installed and taken away again."""

    installed: pulumi.Output[str]  # its version


def child_after(parent: pulumi.Resource, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
    """Options of a component's child that is made after these."""
    return pulumi.ResourceOptions(parent=parent, depends_on=list(resources))
