"""What installed distributions bring under the name of an entry point, loaded when it is named."""

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from threading import Thread
from typing import Any

LOAD_S_MAX = 20.0  # of an import, which may load large packages on a busy machine


class UnusablePlugin(ValueError):
    """A plug-in cannot be used: the text says in one sentence which one, and why."""


def names(group: str) -> frozenset[str]:
    """All that the installed distributions offer in a group; nothing is loaded."""
    return frozenset(entry.name for entry in entry_points(group=group))


def loaded(group: str, name: str, kind: str) -> Any:
    """The one object of that name. Raises UnusablePlugin.

    It is loaded in a thread, since only that can be left when an import does not end.
    """
    found = [*entry_points(group=group, name=name)]
    if not found:
        known = ", ".join(sorted(names(group))) or "none"
        raise UnusablePlugin(
            f"no installed distribution offers the {kind} {name!r} (there are: {known}): install "
            "it, or correct the name"
        )
    entry, *others = found
    if others:
        brought = " and ".join(sorted(map(_distribution, found)))
        raise UnusablePlugin(f"{brought} both bring the {kind} {name!r}: uninstall one")
    return _loaded(entry, kind)


def require_free(group: str, taken: Collection[str], kind: str) -> None:
    """No distribution may bring what has the name of one of ours. Raises UnusablePlugin."""
    for entry in entry_points(group=group):
        if entry.name in taken:
            raise fault_of(entry, kind, "answerbus has one of that name itself")


def fault_of(entry: EntryPoint, kind: str, why: str) -> UnusablePlugin:
    return UnusablePlugin(
        f"the {kind} {entry.name!r} ({entry.value}) of the distribution {_distribution(entry)} "
        f"cannot be used: {why}; correct or uninstall it"
    )


def _loaded(entry: EntryPoint, kind: str) -> Any:
    result: list[Any] = []

    def load() -> None:
        try:
            result.append(entry.load())
        except BaseException as error:  # the distribution's own code runs here
            result.append(error)

    thread = Thread(target=load, name=f"load {entry.name}", daemon=True)
    thread.start()
    thread.join(LOAD_S_MAX)
    if not result:
        raise fault_of(entry, kind, f"its import did not end in {LOAD_S_MAX:g} s")
    if isinstance(result[0], BaseException):
        raise fault_of(entry, kind, f"it does not load ({type(result[0]).__name__})")
    return result[0]


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "without a name"
