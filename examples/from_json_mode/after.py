"""After: the same with `response_model`; the bus does the rest."""

from pydantic import BaseModel, field_validator

from answerbus.client import SyncClient

TEAMS = ("billing", "shipping", "accounts")  # from a database, say


class Route(BaseModel):
    team: str
    urgent: bool

    @field_validator("team")
    @classmethod
    def _known(cls, team: str) -> str:
        if team not in TEAMS:
            raise ValueError(f"no team of ours; these are {', '.join(TEAMS)}")
        return team


def route(client: SyncClient, ticket_id: str, ticket: str) -> Route:
    outcome = client.ask(
        "Which team takes this ticket?",
        workflow_id=f"ticket-{ticket_id}",
        response_model=Route,
        facts={"ticket": ticket},
    )
    return outcome.unwrap()
