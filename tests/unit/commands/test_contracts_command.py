"""`answerbus contracts list` and `show`."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.registry import BUILT_IN
from services import cli
from tests.unit.test_cli import run


def contracts(*arguments: str) -> Any:
    done = CliRunner().invoke(cli.application(), ["contracts", *arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def test_all_are_listed_with_what_they_are_for() -> None:
    found = contracts("list", "--json")

    assert [one["name"] for one in found] == [contract.name for contract in BUILT_IN]
    assert found[0] == {
        "name": "plan_proposal",
        "version": 1,
        "digest": PLAN_PROPOSAL.id.digest,
        "summary": PLAN_PROPOSAL.summary,
        "variants": ["DepBump", "Override", "CallsiteRewrite", "Refuse"],
        "refusing_variants": ["Refuse"],
        "audit_only": ["rationale"],
        "text_variant": False,
        "distribution": "answerbus itself",
    }
    assert found[1]["text_variant"]


def test_the_table_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    shown = contracts("list")

    for contract in BUILT_IN:
        assert f"{contract.name}.v{contract.version}" in shown
    assert "ends as a refusal: Refuse" in shown


@pytest.mark.parametrize("name", ["plan_proposal", "plan_proposal.v1"])
def test_one_is_shown_with_its_schema(name: str) -> None:
    assert contracts("show", name, "--json")["schema"] == PLAN_PROPOSAL.schema()
    asked = contracts("show", name, "--asked", "--json")["schema"]
    assert asked == PLAN_PROPOSAL.asked_schema()
    shown = contracts("show", name)
    assert shown.startswith("plan_proposal.v1, brought by answerbus itself\n")
    assert json.loads(shown[shown.index("{") :]) == PLAN_PROPOSAL.schema()


@pytest.mark.parametrize("command", ["export", "asyncapi"])
def test_a_place_that_cannot_be_written_is_named(command: str) -> None:
    done = CliRunner().invoke(cli.application(), ["contracts", command, "/proc/nope/file"])

    assert done.exit_code == 2
    assert "cannot be written" in " ".join(done.output.replace("│", "").split())


def test_an_unknown_name_says_which_there_are() -> None:
    done = CliRunner().invoke(cli.application(), ["contracts", "show", "plan_propsal"])

    assert done.exit_code == 2
    assert "plan_proposal.v1" in done.output


@pytest.mark.wide
def test_a_plugins_contract_names_its_distribution(tickets_plugin: Path) -> None:
    inherited = os.environ.get("PYTHONPATH", "")  # noqa: TID251 - for a child
    path = os.pathsep.join([str(tickets_plugin), inherited, os.getcwd()])
    done = run("contracts", "show", "ticket_routing", "--json", PYTHONPATH=path)

    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["distribution"] == "answerbus-tickets 1.2.0"
    assert shown["variants"] == ["Route", "AskCustomer", "NoTicket"]
    assert shown["refusing_variants"] == ["NoTicket"]
