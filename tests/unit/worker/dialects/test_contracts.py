"""Every contract that ships can be asked for in every dialect, in the subset of its provider."""

from typing import get_args

import pytest

from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.registry import Registry
from answerbus.request import ContractRef
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, WireSchema
from services.worker.dialects import openai
from services.worker.dialects.compiler.compile import Compiled, compile_shapes
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


def test_the_answers_of_a_contract_without_optional_members_are_not_looked_at() -> None:
    compiled = compile_shapes(PLAN_PROPOSAL.asked_schema(), openai.RULES)

    assert isinstance(compiled, Compiled)
    assert compiled.rewritten == frozenset()
