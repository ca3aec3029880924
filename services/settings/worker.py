"""`[worker]`, `[ids]` and `[accounts]`: what a worker does at once, and what it remembers."""

from typing import Annotated

from pydantic import AfterValidator, Field

from answerbus.topics import LEDGER
from answerbus.wire import Label
from services.settings.section import (
    COUNT_MAX,
    DAY_S,
    JSON_IN_VARIABLE,
    Flag,
    Number,
    Section,
    Text,
    Whole,
)
from services.text.host_and_port import host_and_port

MINUTE_S = 60
LEDGER_S = (LEDGER.retention_ms or 0) / 1_000  # the ledger keeps nothing for longer


def _place(text: str) -> str:
    if host_and_port(text) is None:
        raise ValueError(f"must be HOST:PORT, not {text!r}")
    return text


class WorkerSettings(Section):
    """`[worker]`: how much a worker does at once, and how long it waits."""

    name: Text | None = None
    max_in_flight: Annotated[Whole, Field(ge=1, le=100_000)] = 1_000
    health: Annotated[Text, AfterValidator(_place)] = "127.0.0.1:8080"
    health_hosts: Annotated[tuple[str, ...], JSON_IN_VARIABLE, Field(max_length=100)] = ()
    held_max: Annotated[Whole, Field(ge=1, le=COUNT_MAX)] = 10_000
    lane_requests_max: Annotated[Whole, Field(ge=1, le=COUNT_MAX)] = 2_000
    lane_bytes_max: Annotated[Whole, Field(ge=1, le=1_000 * COUNT_MAX)] = 32 * 1024 * 1024
    retry_first_s: Annotated[Number, Field(ge=0, le=DAY_S)] = 1.0
    retry_factor: Annotated[Number, Field(ge=1, le=1_000)] = 2.0
    retry_max_s: Annotated[Number, Field(ge=0, le=DAY_S)] = 60.0
    drain_s: Annotated[Number, Field(ge=0, le=DAY_S)] = 30.0
    stuck_after_s: Annotated[Number, Field(ge=1, le=DAY_S)] = 45.0
    prompt_secret_env: str | None = None
    shared_cards: Flag = False
    tenant_label: Annotated[Label, Field(min_length=1)] = "tenant"


def card_advice(worker: WorkerSettings) -> list[str]:
    """Insecure settings where cards of the shared topic are read."""
    if not worker.shared_cards:
        return []
    message = (
        "`worker.shared_cards` is on: any tool server can announce the tools of every toolset that "
        "has no card in a topic of its own; turn it off once all tool servers are upgraded"
    )
    return [message]


class IdSettings(Section):
    """`[ids]`: how long a request id that has had its outcome is known, so that a copy is dropped.

    Each costs memory and disk (docs/guarantees.md); the ledger keeps nothing beyond 7 days.
    """

    remember_s: Annotated[Number, Field(ge=MINUTE_S, le=LEDGER_S)] = 86_400.0


class AccountSettings(Section):
    """`[accounts]`: how long a workflow's account is known after its last event.

    A workflow that goes on later has a fresh budget. Where each request is a workflow of its own,
    this says what accounts cost (docs/guarantees.md); the ledger keeps nothing beyond 7 days.
    """

    remember_s: Annotated[Number, Field(ge=MINUTE_S, le=LEDGER_S)] = LEDGER_S
