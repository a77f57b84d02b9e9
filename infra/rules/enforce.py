"""Holds every resource of the program to guardrails.py as it is declared.

Owns the translation of a resource of the SDK into inputs as on the wire, and how missing labels get back into it. The
engine has transforms as well, but prints a traceback for what they refuse; here it is one sentence per rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pulumi

from infra import names
from infra.rules import guardrails
from infra.rules.guardrails import Declared

# pulumi exports neither; the names that an Args class has on the wire are known only there
from pulumi._types import input_type_to_dict, is_input_type  # isort: skip

_HOW = "docs/adding-a-target.md"
_USERS_OWN_KEYS = frozenset(("labels", "resourceLabels", "metadata", "annotations"))


class GuardrailError(pulumi.RunError):
    """What is declared breaks a rule; the message says which, and how to fix or allow it."""


def install(stack: str, owner: str, allowed: Sequence[str]) -> None:
    """Check every resource that is declared from now on, and label it if it costs money."""
    labels = names.labels(owner, stack)

    def guard(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        props = cast(dict[str, Any], args.props)
        inputs = cast(dict[str, Any], to_wire(props))
        protect, retain = bool(args.opts.protect), bool(args.opts.retain_on_delete)
        declared = Declared(args.type_, args.name, inputs, protect, retain)
        broken = guardrails.problems(declared, allowed)
        if broken:
            raise GuardrailError("; ".join(broken))
        labelled = guardrails.labelled(declared, labels)
        if labelled is inputs:
            return None
        top = guardrails.BILLABLE[args.type_][0]
        spelled = next((key for key in props if _wire_key(key) == top), top)
        return pulumi.ResourceTransformationResult(props | {spelled: labelled[top]}, args.opts)

    pulumi.runtime.register_stack_transformation(guard)


def nothing_billed() -> None:
    """Refuse what costs money, in a stack whose settings have no limits for it."""

    def check(args: pulumi.ResourceTransformationArgs) -> None:
        if args.type_ in guardrails.BILLABLE:
            paid = f"{args.type_} '{args.name}' is paid for"
            raise GuardrailError(f"{paid}, but this target's settings have no limits; make them Terms ({_HOW})")

    pulumi.runtime.register_stack_transformation(check)


def guard_first() -> None:
    """Refuse what is declared before the stack's guard: what it makes could outlive a killed `up`, and be billed."""
    guarded = False

    def check(args: pulumi.ResourceTransformationArgs) -> None:
        nonlocal guarded
        if not isinstance(args.resource, pulumi.CustomResource) or isinstance(args.resource, pulumi.ProviderResource):
            return
        if not guarded and not args.type_.endswith(":StackGuard"):
            raise GuardrailError(
                f"{args.type_} '{args.name}' is declared before the stack's guard; a target whose stacks are paid for "
                f"declares a StackGuard first ({_HOW})"
            )
        guarded = True

    pulumi.runtime.register_stack_transformation(check)


def to_wire(value: Any, translate: bool = True) -> Any:
    """Inputs as on the wire; what is not set is left out, what is not known yet stays the SDK's object."""
    kind = cast(type[Any], type(value))
    if is_input_type(kind):
        return to_wire(input_type_to_dict(value), translate=False)
    if isinstance(value, Mapping):
        values = cast(Mapping[str, Any], value)
        return {
            (wire := _wire_key(key) if translate else key): to_wire(item, translate and wire not in _USERS_OWN_KEYS)
            for key, item in values.items()
            if item is not None
        }
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [to_wire(item, translate) for item in cast(Sequence[Any], value)]
    return value


def _wire_key(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others) if first else key
