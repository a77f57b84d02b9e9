"""Processes of this machine by a label: a variable in their environment, which whatever they start inherits.

Owns the scan. Refuses to own what a label says, and what is done with the processes.
"""

from __future__ import annotations

from collections.abc import Callable

import psutil


def labelled(label: str, belongs: Callable[[str], bool]) -> list[psutil.Process]:
    """Every live process whose value of the variable `label` belongs."""
    return [process for process in psutil.process_iter() if _has(process, label, belongs)]


def is_alive(process: psutil.Process) -> bool:
    """False for a zombie. Raises psutil.Error for a process that is gone."""
    return process.status() != psutil.STATUS_ZOMBIE


def _has(process: psutil.Process, label: str, belongs: Callable[[str], bool]) -> bool:
    try:
        value = process.environ().get(label)
        return value is not None and belongs(value) and is_alive(process)
    except psutil.Error:
        return False  # ended meanwhile, or another user's: not ours
