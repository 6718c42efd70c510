"""Calls back when a module has been imported, without importing it."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


class _Loader(importlib.abc.Loader):
    """Loads the module as its own loader would, then calls back."""

    def __init__(
        self, inner: importlib.abc.Loader, then: list[Callable[[ModuleType], None]]
    ) -> None:
        self._inner = inner
        self._then = then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        for then in self._then:
            then(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for one module and removes itself when the module is found."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.then: list[Callable[[ModuleType], None]] = []

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        _waiting.pop(fullname, None)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self.then)
        return spec


_waiting: dict[str, _Finder] = {}


def when_imported(name: str, then: Callable[[ModuleType], None]) -> None:
    """Call `then(module)` once: now if it is loaded, else right after its first import.

    Several callers may wait for one module. They are called in order.

    Example: `when_imported("torch.optim.optimizer", install)`.
    """
    loaded = sys.modules.get(name)
    if loaded is not None:
        then(loaded)
        return
    finder = _waiting.get(name)
    if finder is None:
        finder = _waiting[name] = _Finder(name)
        sys.meta_path.insert(0, finder)
    finder.then.append(then)
