"""The exception classes of an SDK, found by looking through all of its source."""

import importlib
import re
from pathlib import Path
from types import ModuleType

_EXCEPTION = re.compile(r"^ *class \w+\([^)]*(?:Error|Exception)\b", re.MULTILINE)


def exception_classes(package: ModuleType) -> dict[str, type[Exception]]:
    """Every exception class that a module of `package` defines, by name.

    Modules that need another package, such as those for one cloud alone, are passed over.
    """
    (folder,) = map(Path, package.__path__)
    found: dict[str, type[Exception]] = {}
    for source in sorted(folder.rglob("*.py")):
        if _EXCEPTION.search(source.read_text(encoding="utf-8")):
            parts = source.relative_to(folder).with_suffix("").parts
            found |= _named_in(
                ".".join([package.__name__, *parts]).removesuffix(".__init__"), package
            )
    return found


def _named_in(name: str, package: ModuleType) -> dict[str, type[Exception]]:
    try:
        members = list(vars(importlib.import_module(name)).values())
    except (ImportError, RuntimeError):
        return {}
    kinds = [kind for kind in members if isinstance(kind, type) and issubclass(kind, Exception)]
    kinds = [kind for kind in kinds if not issubclass(kind, Warning)]
    return {kind.__name__: kind for kind in kinds if kind.__module__.startswith(package.__name__)}
