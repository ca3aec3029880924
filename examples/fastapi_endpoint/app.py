"""An HTTP endpoint that asks a model and answers with a typed body."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel

from answerbus.client import BusUnavailable, Client, NoAnswerYet
from answerbus.outcome import Result

KAFKA, PREFIX = os.environ.get("KAFKA", "localhost:9092"), os.environ.get("TOPIC_PREFIX")


class Ticket(BaseModel):
    id: str
    text: str


class Route(BaseModel):
    """Which team takes the ticket."""

    team: Literal["billing", "shipping", "accounts"]
    urgent: bool


@asynccontextmanager
async def connected(_: FastAPI) -> AsyncIterator[dict[str, Client]]:
    async with Client(KAFKA, topic_prefix=PREFIX or "answerbus") as client:
        yield {"client": client}  # one for all requests


async def client_of(request: Request) -> Client:
    client: Client = request.state.client
    return client


app = FastAPI(lifespan=connected)


@app.post("/tickets")
async def route(ticket: Ticket, client: Annotated[Client, Depends(client_of)]) -> Route:
    try:
        outcome = await client.ask(
            "Which team takes this ticket, and is it urgent?",
            workflow_id=f"ticket-{ticket.id}",
            response_model=Route,
            facts={"ticket": ticket.text},
            timeout_s=30,
        )
    except NoAnswerYet as later:  # it goes on: `client.outcome_of` finds its outcome
        raise HTTPException(504, later.request_id) from None
    except BusUnavailable as fault:
        raise HTTPException(503, str(fault)) from None
    if isinstance(outcome, Result):
        return outcome.answer
    raise HTTPException(502, str(outcome))  # refused, or a dead letter: it says why
