"""The description of a contract: its rules in words and as data; finds contracts by name."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from pydantic import TypeAdapter

from answerbus.contract import Contract

Sourced = tuple[Contract[Any], str]


def named(text: str, contracts: Sequence[Sourced]) -> Sourced:
    """The contract of that name, in its newest version if none is said; raises BadParameter."""
    fits = [
        (contract, source)
        for contract, source in contracts
        if text in (contract.name, _label(contract))
    ]
    if not fits:
        known = ", ".join(_label(contract) for contract, _ in contracts)
        raise typer.BadParameter(f"There is no contract {text!r}; known: {known}.")
    return max(fits, key=lambda found: found[0].version)


def parts_of(contract: Contract[Any]) -> Sequence[str]:
    """Its variants and rules, a line each."""
    lines = {
        "variants": ", ".join(_variants(contract.schema())),
        "ends as a refusal": ", ".join(_refusing(contract)),
        "for auditors alone": ", ".join(sorted(contract.audit_only)),
        "text variant": "with `at_last: text`, the model's text as it is" * _has_text(contract),
    }
    return [f"{name}: {text}" for name, text in lines.items() if text]


def as_data(contract: Contract[Any], source: str) -> Mapping[str, object]:
    """The same for programs."""
    return {
        "name": contract.name,
        "version": contract.version,
        "digest": contract.id.digest,
        "summary": contract.summary,
        "variants": _variants(contract.schema()),
        "refusing_variants": _refusing(contract),
        "audit_only": sorted(contract.audit_only),
        "text_variant": _has_text(contract),
        "distribution": source,
    }


def _label(contract: Contract[Any]) -> str:
    return f"{contract.name}.v{contract.version}"


def _has_text(contract: Contract[Any]) -> bool:
    return contract.from_text is not None


def _refusing(contract: Contract[Any]) -> list[str]:
    """The variants that results do not have."""
    if contract.result is None:
        return []
    published = TypeAdapter(contract.result).json_schema()
    left = _variants(published) or [str(published.get("title"))]
    return [name for name in _variants(contract.schema()) if name not in left]


def _variants(schema: Mapping[str, Any]) -> list[str]:
    """The names of a union's branches, as pydantic writes them; none for another type."""
    branches = schema.get("oneOf") or schema.get("anyOf") or ()
    return [branch["$ref"].rpartition("/")[2] for branch in branches if "$ref" in branch]
