"""The programs on docs/testing.md work as they stand."""

import re
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from answerbus.answers.plan_proposal import PlanProposal
from answerbus.envelope import Encoded, decode

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def functions(number: int) -> dict[str, Any]:
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = {"__name__": "program"}
    exec(programs[number], found)
    return found


async def test_a_subscriber_books_each_outcome() -> None:
    await functions(0)["test_each_outcome_is_booked"]()


class Route(BaseModel):
    team: str


async def test_a_result_is_made_of_an_answer_to_a_class_and_to_a_contract() -> None:
    made: Any = functions(1)["a_result"]
    bump = {"kind": "dep_bump", "manifest_path": "package.json", "package": "l"}

    for answer, asked in (
        ({"team": "web"}, Route),
        (bump | {"target_version": "1.2.3"}, PlanProposal),
        ("Web.", str),
    ):
        record: Encoded = await made(answer, asked)
        assert record.value is not None
        event: Any = decode(record.value)
        assert event.kind == "result"
