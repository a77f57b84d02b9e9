"""Modules that wait: they are imported at once, and loaded when something of them is first used.

Owns how a module waits, also for those that take something of it when they are imported themselves. Refuses to own
which modules do (training/maxtext_imports.py). Unlike importlib.util.LazyLoader it lets a module be asked for its name,
its file and its submodules without loading it, so that a package can wait while some of its submodules do not.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_LOADING = "_slipway_loading"


@contextlib.contextmanager
def deferred(modules: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Those of `modules` that are imported inside wait, also afterwards; one that is not installed cannot be imported.

    Of each: the mappings which others take from it by `from module import NAME`. They get one that waits as well; any
    other name loads the module.
    """
    finder = _Finder(modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def waiting() -> list[str]:
    """Names of the modules that nobody has used yet."""
    return sorted(name for name, module in list(sys.modules.items()) if type(module) is _Waiting)


class _Finder(MetaPathFinder):
    def __init__(self, modules: Mapping[str, Sequence[str]]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self._modules:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and spec.loader:
            spec.loader = _Later(spec.loader, self._modules)
        return spec


class _Later(Loader):
    """Does not load, but makes a module that does so by itself."""

    def __init__(self, loader: Loader, modules: Mapping[str, Sequence[str]]) -> None:
        self._loader, self._modules = loader, modules

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__
        module.__spec__.loader = module.__loader__ = self._loader
        vars(module)[_LOADING] = _Loading(self._loader, frozenset(self._modules))
        for name in self._modules[module.__name__]:
            setattr(module, name, _Taken(module, name))
        module.__class__ = _Waiting


class _Loading:
    """Loads one module once, whichever threads use it first."""

    def __init__(self, loader: Loader, modules: frozenset[str]) -> None:
        self._loader, self._modules = loader, modules
        self._lock = threading.RLock()
        self._begun = False

    def attribute(self, module: ModuleType, name: str) -> Any:
        if f"{module.__name__}.{name}" in self._modules:
            return importlib.import_module(f"{module.__name__}.{name}")
        self.load(module)
        real = sys.modules[module.__name__]  # a module may put another into its place
        if real is module:
            return ModuleType.__getattribute__(module, name)
        return getattr(real, name)

    def load(self, module: ModuleType) -> None:
        with self._lock:
            if self._begun:
                return
            self._begun = True
            try:
                self._loader.exec_module(module)
            except BaseException:
                self._begun = False  # who uses it next is told the same
                raise
            if sys.modules[module.__name__] is module:
                module.__class__ = ModuleType


class _Waiting(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # which a package has from the beginning, and the import system asks everyone for
            raise AttributeError(name)
        return vars(self)[_LOADING].attribute(self, name)


class _Taken(Mapping[Any, Any]):
    """A mapping of a module that waits."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self._module, self._name = module, name

    def _real(self) -> Mapping[Any, Any]:
        if vars(self._module)[self._name] is self:
            vars(self._module)[_LOADING].load(self._module)
        return vars(self._module)[self._name]

    def __getitem__(self, key: Any) -> Any:
        return self._real()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._real())

    def __len__(self) -> int:
        return len(self._real())
