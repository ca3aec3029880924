"""An HTTP endpoint that asks a model and answers with a typed body."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel

from answerbus.client import BusUnavailable, Client, NoAnswerYet
from answerbus.outcome import Result

KAFKA = os.environ.get("KAFKA", "localhost:9092")
PREFIX = os.environ.get("TOPIC_PREFIX", "answerbus")


class Ticket(BaseModel):
    id: str
    text: str


class Route(BaseModel):
    """Which team takes the ticket."""

    team: Literal["billing", "shipping", "accounts"]
    urgent: bool


@asynccontextmanager
async def running(_: FastAPI) -> AsyncGenerator[dict[str, Any]]:
    async with AsyncExitStack() as stack:
        yield {"stack": stack, "lock": asyncio.Lock(), "clients": []}


async def client_of(request: Request) -> Client:
    """One for all requests; the first one connects, so the server starts without Kafka."""
    state, client = request.state, Client(KAFKA, topic_prefix=PREFIX)
    async with state.lock:
        if not state.clients:
            try:
                await state.stack.enter_async_context(client)
            except BusUnavailable as fault:
                raise HTTPException(503, str(fault)) from None
            state.clients.append(client)
    connected: Client = state.clients[0]
    return connected


app = FastAPI(lifespan=running)


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
