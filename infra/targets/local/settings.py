"""Keys of a stack of target `local`, and what that target asks of its accelerator."""

from __future__ import annotations

from pydantic import Field

from infra.stack_file.settings import OnDestroy, Settings, SettingsError


class LocalSettings(Settings):
    on_destroy: OnDestroy = OnDestroy.KEEP
    """`keep` or `delete` - what `pulumi destroy` does with the stack's checkpoints, metrics and prepared data."""
    coordinator_port: int = Field(0, ge=0, le=65535)
    """Port of host 0's coordinator on target local; 0 picks one from the stack's name and the clone's path."""

    def check_place(self) -> None:
        if self.row.platform != "cpu":
            raise SettingsError(f"accelerator '{self.row.name}' is not on this machine; target local takes cpu-N rows")
