"""The contract `mood` v1: how a customer feels, with the words that show it."""

from typing import Annotated, Literal

from pydantic import Field

from answerbus.contract import Closed, Contract, Declined
from answerbus.values import Detail


class Mood(Closed):
    """How the customer feels about us."""

    kind: Literal["mood"]
    feeling: Annotated[Literal["content", "neutral", "angry"], Field(description="As a whole.")]
    quote: Annotated[Detail, Field(description="The words that show it, as they stand.")]


class NotACustomer(Closed):
    """Refuse what no customer has written, such as advertisements."""

    kind: Literal["not_a_customer"]
    why: Annotated[Detail, Field(description="What it is instead.")]


MoodOrNot = Annotated[Mood | NotACustomer, Field(discriminator="kind")]


def declines(answer: Mood | NotACustomer) -> Declined | None:
    """A refusing variant ends as a Refusal, so that readers of results never see it."""
    return Declined(answer.why, None) if isinstance(answer, NotACustomer) else None


MOOD: Contract[Mood | NotACustomer] = Contract(
    name="mood",
    version=1,
    answer=MoodOrNot,
    asked=MoodOrNot,  # another type where models must say more than is published
    result=Mood,
    summary="How a customer feels, with the words that show it.",
    declines=declines,
)
