"""The contract `ticket_routing` v1: which team a support ticket goes to, or a question first."""

from typing import Annotated, Literal

from pydantic import Field

from answerbus.contract import Closed, Contract, Declined
from answerbus.values import Detail, Rationale


class Route(Closed):
    """Hand the ticket to a team."""

    kind: Literal["route"]
    team: Annotated[Literal["billing", "shipping", "accounts"], Field(description="Who has it.")]
    urgent: Annotated[bool, Field(description="Whether someone loses money or data by waiting.")]


class AskCustomer(Closed):
    """Ask the customer for what is missing."""

    kind: Literal["ask_customer"]
    question: Annotated[Detail, Field(description="One question, in the customer's language.")]


class NoTicket(Closed):
    """Refuse what is no support ticket, such as advertisements and abuse."""

    kind: Literal["no_ticket"]
    why: Annotated[Literal["spam", "abuse"], Field(description="What it is instead.")]


# What results carry, and what models may answer: a refusal is an event of its own.
TicketRouting = Annotated[Route | AskCustomer, Field(discriminator="kind")]
TicketRoutingOrNoTicket = Annotated[Route | AskCustomer | NoTicket, Field(discriminator="kind")]

_Why = Annotated[Rationale, Field(description="Why this is right, for auditors: at most 2 KiB.")]


class AskedRoute(Route):
    """Hand the ticket to a team."""

    rationale: _Why


class AskedAskCustomer(AskCustomer):
    """Ask the customer for what is missing."""

    rationale: _Why


class AskedNoTicket(NoTicket):
    """Refuse what is no support ticket, such as advertisements and abuse."""

    rationale: _Why


AskedTicketRouting = Annotated[
    AskedRoute | AskedAskCustomer | AskedNoTicket, Field(discriminator="kind")
]


def _declines(answer: TicketRoutingOrNoTicket) -> Declined | None:
    return Declined("This is no ticket.", answer.why) if isinstance(answer, NoTicket) else None


TICKET_ROUTING: Contract[TicketRoutingOrNoTicket] = Contract(
    name="ticket_routing",
    version=1,
    answer=TicketRoutingOrNoTicket,
    result=TicketRouting,
    asked=AskedTicketRouting,
    summary="The team that a support ticket goes to, or a question to the customer.",
    audit_only=frozenset({"rationale"}),
    declines=_declines,
)
