"""Keys of a stack of target `local`, and what that target asks of its accelerator."""

from __future__ import annotations

from pydantic import Field

from infra.hardware import Api
from infra.paths import ARTIFACTS, PREPARED, of_stack
from infra.stack_file.settings import OnDestroy, Settings, SettingsError
from infra.targets.places import Places, in_bucket


class LocalSettings(Settings):
    on_destroy: OnDestroy = OnDestroy.KEEP
    """`keep` or `delete` - what `pulumi destroy` does with the stack's checkpoints, metrics and prepared data."""
    coordinator_port: int = Field(0, ge=0, le=65535)
    """Port of host 0's coordinator on target local, the next one is taken too; 0 picks one from the clone's path."""

    @property
    def places(self) -> Places:
        """In the clone's .slipway/; all stacks of it share artifacts and prepared data."""
        return self.placed(str(ARTIFACTS), str(of_stack(self.stack).runs), str(PREPARED))

    def check_place(self) -> None:
        if Api.LOCAL not in self.row.apis:
            raise SettingsError(f"accelerator '{self.row.name}' is not on this machine; target local takes cpu-N rows")
        for key in ("artifacts", "artifacts_on_hosts", "runs"):
            if in_bucket(place := getattr(self, key) or ""):
                raise SettingsError(f"{key} is '{place}'; hosts on this machine use directories, so give one of those")
