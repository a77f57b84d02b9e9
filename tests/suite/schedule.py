"""Which worker of pytest-xdist runs what: a module at a time, so that what its tests share is made once."""

from __future__ import annotations

from xdist.scheduler.loadscope import LoadScopeScheduling

# Modules whose tests share nothing that takes time to make: each test may go to another worker.
APART = frozenset(("tests/unit/test_fault_matrix.py",))
# Folders whose modules share what takes time to make.
TOGETHER = frozenset(("tests/cluster",))


class ByModule(LoadScopeScheduling):
    """Modules in the order in which they were collected, which plugin.py has decided."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        folder = module.rpartition("/")[0]
        return nodeid if module in APART else folder if folder in TOGETHER else module
