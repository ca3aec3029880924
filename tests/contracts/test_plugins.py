"""Plugins bring contracts, change none, and are named when they cannot be used."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from answerbus import plugins
from answerbus.answers.plan_proposal import PLAN_PROPOSAL, DepBump
from answerbus.contract import Contract
from answerbus.plugins import PluginError, fault_of
from answerbus.registry import BUILT_IN, Registry
from answerbus.request import ContractRef
from tests.plugins.installing import write_plugin

HEAD = """
from typing import Any, Callable
from pydantic import BaseModel, JsonValue
from answerbus.contract import Closed, Contract

class Weather(Closed):
    celsius: float

class Reasoned(Weather):
    rationale: str

class Open(BaseModel):
    inner: Weather
"""


def contract_of(arguments: str, answer: str = "Weather", asked: str = "Weather") -> str:
    return f"{HEAD}\nC = Contract({arguments}, answer={answer}, asked={asked}, summary='s')\n"


GOOD = contract_of("name='weather', version=1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def names(registry: Registry) -> list[str]:
    return [f"{contract.name}.v{contract.version}" for contract in registry]


SHIPPED = [f"{contract.name}.v{contract.version}" for contract in BUILT_IN]


def test_without_plugins_there_are_the_contracts_that_ship() -> None:
    assert names(plugins.installed()) == SHIPPED
    assert [fault_of(contract) for contract in BUILT_IN] == [None] * len(BUILT_IN)


@pytest.mark.wide
def test_a_plugin_that_pip_installed_adds_its_contract(
    tickets_plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tickets_plugin))

    registry = plugins.installed()

    assert names(registry) == [*SHIPPED, "ticket_routing.v1"]
    contract = registry.find(ContractRef(name="ticket_routing", version=1))
    assert contract is not None
    answer = contract.adapter.validate_json('{"kind":"route","team":"billing","urgent":true}')
    assert (answer.team, answer.urgent) == ("billing", True)
    assert names(Registry()) == SHIPPED, "only who loads plugins has them"


def test_plugins_come_in_the_order_of_their_names(folder: Path) -> None:
    for name in ("zz-b", "zz-a"):
        source = contract_of(f"name='{name}', version=2")
        write_plugin(folder, name, f"x = {name.replace('-', '_')}:C", source)

    assert names(plugins.installed()) == [*SHIPPED, "zz-a.v2", "zz-b.v2"]


@pytest.mark.parametrize(
    ("case", "source", "says"),
    [
        ("missing", "", "does not load (AttributeError: module"),
        ("syntax", "def", "does not load (SyntaxError"),
        ("raising", "raise RuntimeError('no licence')", "does not load (RuntimeError: no licence)"),
        ("leaving", "raise SystemExit(1)", "does not load (SystemExit"),
        ("importing", "import no_such_module", "(ModuleNotFoundError: No module"),
        ("factory", "def C(): pass", "it is not a Contract but a function"),
        ("claiming", contract_of("name='plan_proposal', version=1"),
         "it claims plan_proposal v1, which is a contract of answerbus itself"),
        ("same", "from answerbus.answers.plan_proposal import PLAN_PROPOSAL as C",
         "it claims plan_proposal v1, which is a contract of answerbus itself"),
        ("naming", contract_of("name='my weather', version=1"), "a name or a version"),
        ("versioning", contract_of("name='weather', version=0"), "a name or a version"),
        ("opening", contract_of("name='w', version=1", "Open", "Weather"),
         "Open takes members that it does not name"),
        ("asking", contract_of("name='w', version=1", "Weather", "list[Open]"),
         "Open takes members that it does not name"),
        ("calling", contract_of("name='w', version=1", "Callable[[], int]"),
         "its types have no JSON Schema (PydanticInvalidForJsonSchema"),
        ("leaking", contract_of(
            "name='w', version=1, audit_only=frozenset({'rationale'})", "Reasoned", "Reasoned"),
         "'rationale' is audit-only, and its published type has it"),
        ("misspelling", contract_of(
            "name='w', version=1, audit_only=frozenset({'rationalle'})", "Weather", "Reasoned"),
         "'rationalle' is audit-only, and its asked type does not have it"),
        ("blending", contract_of(
            "name='w', version=1, audit_only=frozenset({'rationale'}), from_text=lambda text: text",
            "Weather", "Reasoned"),
         "does not load (ValueError: contract w: audit-only fields and a text variant)"),
        ("texting", contract_of("name='w', version=1, from_text=lambda text: {'text': text}"),
         "from_text makes no answer of it (ValidationError)"),
    ],
)  # fmt: skip
def test_a_plugin_that_cannot_be_used_is_named(
    folder: Path, case: str, source: str, says: str
) -> None:
    name = f"faulty-{case}"
    write_plugin(folder, name, f"entry = faulty_{case}:C", source)

    with pytest.raises(PluginError) as caught:
        plugins.installed()

    message = str(caught.value)
    assert message.startswith(
        f"The contract 'entry' (faulty_{case}:C) of the distribution {name} 1.0 cannot be used: "
    )
    assert says in message
    assert message.endswith(". Correct or uninstall that distribution.")


def test_of_two_plugins_with_one_contract_both_are_named(folder: Path) -> None:
    for name in ("twin-a", "twin-b"):
        write_plugin(folder, name, f"w = {name.replace('-', '_')}:C", GOOD)

    with pytest.raises(PluginError) as caught:
        plugins.installed()

    assert "distribution twin-b 1.0" in str(caught.value)
    assert "it claims weather v1, which is a contract of twin-a 1.0" in str(caught.value)


WIDENING = """
from answerbus.answers import plan_proposal
plan_proposal.DepBump.model_config["extra"] = "allow"
plan_proposal.DepBump.model_rebuild(force=True)
"""


def run(folder: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """Python code that finds the plugins of a folder."""
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_nothing_widens_a_contract_that_is_there(folder: Path) -> None:
    """Not even a plugin that changes the very classes of a contract while it is imported."""
    write_plugin(folder, "widening", "w = widening:C", GOOD + WIDENING)
    code = """
from answerbus import plugins
from answerbus.answers.plan_proposal import PLAN_PROPOSAL, DepBump
contract = plugins.installed().find(PLAN_PROPOSAL.ref)
text = '{"kind":"dep_bump","manifest_path":"a","package":"b","target_version":"1","sh":"rm"}'
DepBump.model_validate_json(text)  # it did change the class
print(contract is PLAN_PROPOSAL, contract.id.digest)
contract.adapter.validate_json(text)
"""

    done = run(folder, code)

    assert done.stdout.split() == ["True", PLAN_PROPOSAL.id.digest]
    assert "extra_forbidden" in done.stderr


def test_a_registry_and_a_contract_do_not_change() -> None:
    with pytest.raises(TypeError):
        Registry()._known["plan_proposal", 1] = PLAN_PROPOSAL  # type: ignore[index]
    with pytest.raises(AttributeError):
        PLAN_PROPOSAL.answer = DepBump  # type: ignore[misc]


@pytest.mark.wide
def test_importing_loads_no_plugin(folder: Path) -> None:
    write_plugin(folder, "loud", "x = loud:C", "raise RuntimeError('imported')")
    modules = "answerbus.plugins, answerbus.client, services.cli, services.worker.main"

    done = run(folder, f"import {modules}")

    assert (done.returncode, done.stderr) == (0, "")


def test_a_contract_with_open_json_inside_is_closed_enough() -> None:
    """Named members are closed; `dict[str, JsonValue]` says that any member is welcome."""
    contracts: dict[str, Contract[Any]] = {contract.name: contract for contract in BUILT_IN}

    assert fault_of(contracts["agent_action"]) is None
    assert fault_of(contracts["proposal"]) is None
