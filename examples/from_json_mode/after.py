"""After: the same with `response_model`; workers do the rest."""

from pydantic import BaseModel

from answerbus.client import SyncClient


class Route(BaseModel):
    team: str
    urgent: bool


def route(client: SyncClient, ticket_id: str, ticket: str) -> Route:
    outcome = client.ask(
        "Which team takes this ticket?",
        workflow_id=f"ticket-{ticket_id}",
        response_model=Route,
        facts={"ticket": ticket},
    )
    return outcome.unwrap()
