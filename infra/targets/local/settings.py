"""Keys of a stack of target `local`, and what that target asks of its accelerator."""

from __future__ import annotations

from pydantic import Field

from infra.stack_file.settings import OnDestroy, Settings, SettingsError


class LocalSettings(Settings):
    on_destroy: OnDestroy = OnDestroy.KEEP
    coordinator_port: int = Field(0, ge=0, le=65535)

    def check_place(self) -> None:
        if self.row.platform != "cpu":
            raise SettingsError(f"accelerator '{self.row.name}' is not on this machine; target local takes cpu-N rows")
