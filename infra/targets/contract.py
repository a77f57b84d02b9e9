"""What a target is to everybody else: one class, whose defaults say "not offered" in a sentence.

A target's folder has one subclass in its __init__.py, as `TARGET`; registry.py finds it. What is abstract every target
has, the rest it may leave out. Standard library only, and a method imports its part when it is called: the engine's
wrapper reads this at every command. Refuses to name a target and to own what any of them does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from infra.targets.errors import TRAINS_NOTHING, NotOfferedError

if TYPE_CHECKING:
    from infra.targets.billed import Billed
    from infra.targets.host_variables import HostVariable
    from infra.targets.hosts import Hosts
    from infra.targets.needs import Finding, Needs
    from training.run_spec import RunSpec


class StateBucket(Protocol):
    """A bucket for Pulumi's state of a whole team. Every call raises TargetError for what was not done."""

    def obstacle(self, settings: Any, environment: Mapping[str, str]) -> str | None:
        """Why the bucket of a stack's settings cannot be made, in one sentence; None where it can."""
        ...

    def make_bucket(self, stack: str) -> None: ...

    def stacks_to_move(self) -> list[str]: ...

    def move(self, stack: str, url: str) -> int:
        """Copy a stack's state to a backend and put the original aside; returns how many resources it has."""
        ...


class TargetContract[S, P](ABC):
    """A target whose settings are of class `S`, and which declares a plan `P` (infra/preview/stack_plan.py).

    asks: the variables of infra/emulated.py that may put something else where its stacks ask a service.
    plugins: the engine's plugins that its stacks need besides ours, as `pulumi plugin install resource` names them.
    stacks_begin: what its stacks are named before the accelerator; empty where nothing stands before it.
    emulator: the command that is its cloud, with accelerators that nobody else has; empty where there is none.
    """

    asks: frozenset[str] = frozenset()
    plugins: frozenset[str] = frozenset()
    stacks_begin: str = ""
    emulator: str = ""

    @property
    def name(self) -> str:
        """As stack files spell it: the folder's, with '-' for '_'."""
        return type(self).__module__.rpartition(".")[2].replace("_", "-")

    @abstractmethod
    def settings(self) -> type[S]:
        """A frozen pydantic model of the keys that its stacks may have."""

    @abstractmethod
    def declare(self, plan: P) -> None:
        """Hand a plan to components. Prices, limits and fit are decided by then, and are not its business."""

    def notices(self, settings: S, spec: RunSpec | None) -> tuple[str, ...]:
        """What a reviewer should know besides what is said of every stack; may look at where the stack will run.

        Raises SettingsError for what cannot work there.
        """
        return ()

    def variables(self, settings: S) -> Sequence[HostVariable]:
        """What a host finds in its environment because of the target, as far as a stack file tells: `slipway env`."""
        return ()

    def resources(self) -> tuple[Any, ...]:
        """Its own resources of our provider (infra/providers/resource.py)."""
        return ()

    def on_this_machine(self, settings: S) -> Sequence[Finding]:
        """What its stacks need of this machine (a kubeconfig, a tool) and whether it is there: for `slipway doctor`."""
        return ()

    def needs(self, settings: S) -> Needs | None:
        """What `slipway doctor` asks Google for; None asks nothing."""
        return None

    def hosts(self, stack: str) -> Hosts:
        """The hosts of a stack, for commands of day 2. Raises TargetError where they cannot be reached."""
        raise NotOfferedError(f"stack '{stack}' {TRAINS_NOTHING}")

    def state_bucket(self) -> StateBucket:
        raise NotOfferedError(f"target {self.name} has no bucket for Pulumi's state; name a foundation, which has one")


class TrainingContract[S, P](TargetContract[S, P]):
    """A target whose stacks train; their settings say at which `places` (infra/targets/places.py)."""

    def hosts(self, stack: str) -> Hosts:
        raise NotOfferedError(
            f"stack '{stack}' is of target {self.name}, whose hosts this command does not reach yet; what is there "
            f"says: pulumi preview --stack {stack} --diff (docs/runbook.md)"
        )


class PaidContract[S, P](TrainingContract[S, P]):
    """A target whose stacks are paid for, with settings over `Terms` (infra/stack_file/terms.py)."""

    @abstractmethod
    def billed(self, place: str, say: Callable[[str], None]) -> Sequence[Billed]:
        """Everything in a project, or in what stands for one, that has our label and costs money by itself.

        Also what was asked for a moment ago, for which it may have to wait. place: `billed_in` of its settings. Raises
        TargetError where that cannot be told.
        """

    @abstractmethod
    def remove(self, names: Collection[str], say: Callable[[str], None]) -> Sequence[str]:
        """Delete what `billed` has named and wait until it is gone; returns what was deleted with it."""
