"""What is shown of a tool's card to the person who accepts it."""

from typing import Any

import pytest

from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ToolCard
from services.tools.accepting import ToolChange


def tool(value: object = 1, **more: Any) -> ToolDefinition:
    schema = {"type": "object", "properties": {"really": {"const": value}}}
    card = ToolCard.model_validate(
        {"name": "refund", "args_schema": schema, "approval": "always", **more}
    )
    return ToolDefinition(toolset="orders", card=card, written_by="code")


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (tool(1), tool(True), "args_schema"),
        (tool(repeatable=True), tool(), "repeatable"),
        (tool(reconcilable=True), tool(), "reconcilable"),
        (tool(description="Refunds."), tool(), "description"),
    ],
)
def test_each_change_that_is_to_be_accepted_is_shown(
    before: ToolDefinition, after: ToolDefinition, name: str
) -> None:
    change = ToolChange(before, after)

    assert change.is_to_accept
    assert [found for found, _, _ in change.differences()] == [name]
