"""Every contract that ships can be asked for in every dialect, in the subset of its provider."""

from typing import get_args

import pytest

from answerbus.registry import Registry
from answerbus.request import ContractRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import DialectName, compile_for
from tests.strict_subset import faults

REFS = [ContractRef(name=contract.name, version=contract.version) for contract in Registry()]


@pytest.mark.parametrize("dialect", get_args(DialectName))
@pytest.mark.parametrize("ref", REFS, ids=lambda ref: f"{ref.name}.v{ref.version}")
def test_every_contract_compiles(ref: ContractRef, dialect: DialectName) -> None:
    asked = resolve(ref, Registry())
    assert isinstance(asked, ResolvedSchema)

    wire = compile_for(dialect, asked)

    assert isinstance(wire, WireSchema)
    assert not any("together" in note for note in wire.notes)  # there is room for all members
    assert (
        wire.schema is None if dialect == "prompted" else faults(wire.schema or {}, dialect) == []
    )
