"""docs/contracts.md shows every contract, with examples that are answers to it."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from answerbus.contract import Contract
from answerbus.plugins import GROUP, fault_of
from answerbus.registry import BUILT_IN

TEXT = (Path(__file__).parents[2] / "docs/contracts.md").read_text(encoding="utf-8")
contracts = pytest.mark.parametrize("contract", BUILT_IN, ids=lambda contract: contract.name)


def section(contract: Contract[Any]) -> str:
    heading = f"## `{contract.name}` v{contract.version}\n"
    assert TEXT.count(heading) == 1
    return TEXT.partition(heading)[2].partition("\n## ")[0]


@contracts
def test_the_examples_of_a_contract_are_published_answers(contract: Contract[Any]) -> None:
    blocks = re.findall(r"```json\n(.*?)```", section(contract), re.DOTALL)

    assert blocks
    for block in blocks:
        answer = contract.adapter.validate_json(block, strict=True)
        assert contract.adapter.dump_python(answer, mode="json") == json.loads(block)
        Draft202012Validator(contract.schema()).validate(json.loads(block))


@contracts
def test_the_table_says_what_is_audit_only_and_whether_there_is_a_text_variant(
    contract: Contract[Any],
) -> None:
    (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| [`{contract.name}`]")]
    *_, audit_only, text_variant = row.strip("| ").split(" | ")

    assert set(re.findall(r"`(\w+)`", audit_only)) == contract.audit_only
    assert (text_variant == "none") == (contract.from_text is None)


def test_the_contract_of_ones_own_is_one() -> None:
    """The module that the page shows is a plugin as it stands, under the entry point it names."""
    (module,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (project,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    named: dict[str, Any] = {"__name__": "answerbus_moods"}
    exec(compile(module, "answerbus_moods", "exec", dont_inherit=True), named)
    (entry,) = tomllib.loads(project)["project"]["entry-points"][GROUP].values()

    contract = named[entry.removeprefix("answerbus_moods:")]
    assert isinstance(contract, Contract)
    assert fault_of(contract) is None
