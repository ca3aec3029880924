"""`answerbus audit verify` without the right to see the steps of runs."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from answerbus.topics import RESULTS, STEPS
from services import cli
from services.commands import audit
from services.operators.audit.findings import AuditFinding, FindingKind
from services.operators.audit.verified import Verified
from services.operators.records.stored import RecordPosition

HIDDEN = "Records of runs were not looked at."
PLACE = RecordPosition(RESULTS, 0, 0)


@pytest.mark.parametrize(
    ("kinds", "hidden", "expected"),
    [
        (["no_step"], HIDDEN, (1, False, [], f"{HIDDEN}\n")),
        (["no_step", "spent"], HIDDEN, (1, False, ["spent"], f"{HIDDEN}\n")),
        (["no_step"], None, (1, False, ["no_step"], "")),
        (["spent"], HIDDEN, (1, False, ["spent"], "")),
        ([], HIDDEN, (0, True, [], "")),
    ],
)
def test_steps_that_are_hidden_are_not_missing(
    kinds: list[FindingKind],
    hidden: str | None,
    expected: tuple[int, bool, list[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def verify_topics(*_: object) -> Verified:
        return Verified(breaks=[AuditFinding(kind, None, "r-1", PLACE, "it") for kind in kinds])

    async def hidden_runs(_bus: object, topics: tuple[Any, ...], role: str) -> str | None:
        assert (topics, role) == ((STEPS,), "auditor")
        return hidden

    monkeypatch.setattr(audit, "verify_topics", verify_topics)
    monkeypatch.setattr(audit, "hidden_runs", hidden_runs)
    done = CliRunner().invoke(cli.application(), ["audit", "verify", "--json"])

    found = json.loads(done.stdout)
    said = [one["kind"] for one in found["breaks"]]
    assert (done.exit_code, found["whole"], said, done.stderr) == expected
