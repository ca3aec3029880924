"""The contract `proposal` v1: an assistant's text, and the tool calls that it proposes."""

from typing import Annotated

from pydantic import Field, JsonValue

from answerbus.contract import Closed, Contract
from answerbus.limits import NAME_CHARS_MAX
from answerbus.values import Detail

ACTIONS_MAX = 500


class ProposedAction(Closed):
    """One use of a tool, for someone else to allow and to run."""

    reason: Annotated[Detail, Field(description="Why this is needed: at most 2 KiB.")]
    # The alias is where type checkers look for the names of arguments.
    tool: Annotated[
        str, Field(min_length=1, max_length=NAME_CHARS_MAX, description="Name of the tool.")
    ] = Field(alias="tool_name")
    parameters: Annotated[
        dict[str, JsonValue],
        Field(description='Its parameters as a JSON object, such as {"city": "Paris"} or {}.'),
    ]


class Proposal(Closed):
    """What is done and what is still to do."""

    complete: Annotated[bool, Field(description="Whether nothing is left to do.")]
    message: Annotated[str, Field(description="What to tell the asker.")]
    actions: Annotated[
        tuple[ProposedAction, ...],
        Field(max_length=ACTIONS_MAX, description="What to do next, in this order."),
    ] = ()


PROPOSAL: Contract[Proposal] = Contract(
    name="proposal",
    version=1,
    answer=Proposal,
    asked=Proposal,
    summary="A message, whether all is done, and which tools to use next and why.",
    examples=(
        {
            "complete": False,
            "message": "One replica is behind; I would restart it.",
            "actions": [
                {
                    "reason": "The lag grows by 40 s a minute.",
                    "tool_name": "restart_replica",
                    "parameters": {"replica": "db-2", "drain": True},
                }
            ],
        },
    ),
)
