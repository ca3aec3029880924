"""Contracts that other distributions bring, by entry points of the group `answerbus.contracts`."""

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import JsonValue, ValidationError
from pydantic_core import to_json

from answerbus.contract import Contract
from answerbus.limits import EXCERPT_BYTES_MAX
from answerbus.registry import BUILT_IN, Registry
from answerbus.request import ContractRef
from answerbus.wire import clip

GROUP = "answerbus.contracts"
OURS = "answerbus itself"
_SAMPLE = "any text"


class PluginError(Exception):
    """A plugin cannot be used: says which distribution it belongs to, what is wrong, what to do."""


def installed() -> Registry:
    """The contracts that ship with answerbus, and those of all plugins. Raises PluginError.

    For composition roots, once each: plugins are imported here and nowhere else.
    """
    return Registry(contract for contract, _ in with_distributions())


def with_distributions() -> list[tuple[Contract[Any], str]]:
    """As `installed`, each contract with the distribution that brings it."""
    for contract in BUILT_IN:
        _build(contract)  # before any plugin runs, so that none can change what these accept
    contracts = [(contract, OURS) for contract in BUILT_IN]
    found = {(contract.name, contract.version): OURS for contract in BUILT_IN}
    for entry in _in_order(entry_points(group=GROUP)):
        contract = _load(entry)
        fault = fault_of(contract)
        if fault:
            raise _error(entry, fault)
        claimed = contract.name, contract.version
        if claimed in found:
            message = f"{contract.name} v{contract.version}"
            raise _error(entry, f"it claims {message}, which is a contract of {found[claimed]}")
        found[claimed] = _distribution(entry)
        contracts.append((contract, found[claimed]))
    return contracts


def _in_order(entries: Iterable[EntryPoint]) -> list[EntryPoint]:
    return sorted(entries, key=lambda entry: (_distribution(entry), entry.name))


def _load(entry: EntryPoint) -> Contract[Any]:
    try:
        loaded = entry.load()
    except (Exception, SystemExit) as error:
        message = clip(f"{type(error).__name__}: {error}", EXCERPT_BYTES_MAX)
        raise _error(entry, f"it does not load ({message})") from error
    if not isinstance(loaded, Contract):
        raise _error(entry, f"it is not a Contract but a {type(loaded).__name__}")
    return loaded


def _error(entry: EntryPoint, fault: str) -> PluginError:
    return PluginError(
        f"The contract {entry.name!r} ({entry.value}) of the distribution "
        f"{_distribution(entry)} cannot be used: {fault}. Correct or uninstall that distribution."
    )


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "without a name"


def fault_of(contract: Contract[Any]) -> str | None:
    """The reason why a class cannot serve as a contract; None if there is none."""
    try:
        ContractRef(name=contract.name, version=contract.version)
    except ValidationError:
        return "it has a name or a version that no request can say"
    try:
        published, asked = _build(contract)
    except Exception as error:  # pydantic raises many kinds
        message = clip(f"{type(error).__name__}: {error}", EXCERPT_BYTES_MAX)
        return f"its types have no JSON Schema ({message})"
    return (
        _open_object(published)
        or _open_object(asked)
        or _audit_fault(contract, published, asked)
        or _text_fault(contract)
    )


def _build(contract: Contract[Any]) -> tuple[JsonValue, JsonValue]:
    return contract.schema(), contract.asked_schema()


def _open_object(schema: JsonValue) -> str | None:
    for inner in _objects(schema):
        if inner.get("additionalProperties") is not False:
            name = inner.get("title", "an object")
            return f"{name} takes members that it does not name (derive it from contract.Closed)"
    return None


def _audit_fault(contract: Contract[Any], published: JsonValue, asked: JsonValue) -> str | None:
    for name in sorted(contract.audit_only):
        if name in _members(published):
            return f"{name!r} is audit-only, and its published type has it"
        if name not in _members(asked):
            return f"{name!r} is audit-only, and its asked type does not have it"
    return None


def _text_fault(contract: Contract[Any]) -> str | None:
    if contract.from_text is None:
        return None
    try:
        contract.adapter.validate_json(to_json(contract.from_text(_SAMPLE)), strict=True)
    except Exception as error:  # the plugin's own code runs here
        return f"from_text makes no answer of it ({type(error).__name__})"
    return None


def _members(schema: JsonValue) -> set[str]:
    return {name for inner in _objects(schema) for name in inner["properties"]}


def _objects(schema: JsonValue) -> Iterator[dict[str, Any]]:
    """The schemas of objects with named members, in a schema that pydantic has made."""
    waiting: list[JsonValue] = [schema]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, dict):
            if inner.get("type") == "object" and "properties" in inner:
                yield inner
            waiting.extend(inner.values())
        elif isinstance(inner, list):
            waiting.extend(inner)
