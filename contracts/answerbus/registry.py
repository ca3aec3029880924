"""The registry of contracts: an immutable lookup by name and version."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from answerbus.answers.agent_action import AGENT_ACTION
from answerbus.answers.judgement import JUDGEMENT
from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.answers.proposal import PROPOSAL
from answerbus.answers.selection import SELECTION
from answerbus.answers.specialist import SPECIALIST
from answerbus.contract import Contract
from answerbus.request import ContractRef

BUILT_IN: tuple[Contract[Any], ...] = (
    PLAN_PROPOSAL,
    AGENT_ACTION,
    JUDGEMENT,
    PROPOSAL,
    SELECTION,
    SPECIALIST,
)


class Registry:
    """An immutable set of contracts; two of the same name and version are a bug, said at once."""

    def __init__(self, contracts: Iterable[Contract[Any]] = BUILT_IN) -> None:
        """Raises ValueError when a name and version occurs twice."""
        known: dict[tuple[str, int], Contract[Any]] = {}
        for contract in contracts:
            if (contract.name, contract.version) in known:
                raise ValueError(
                    f"contract {contract.name} v{contract.version} is registered twice"
                )
            known[contract.name, contract.version] = contract
        self._known: Mapping[tuple[str, int], Contract[Any]] = MappingProxyType(known)

    def find(self, ref: ContractRef) -> Contract[Any] | None:
        """The contract that a request refers to, if there is one."""
        return self._known.get((ref.name, ref.version))

    def __iter__(self) -> Iterator[Contract[Any]]:
        return iter(self._known.values())
