"""Contracts, topics and the whole bus as documentation, with the broker's figures."""

import json
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from jinja2 import TemplateNotFound

from answerbus import asyncapi as bus_document
from answerbus.contract import Contract
from answerbus.topics import TOPICS, Topic
from services.console.context import CONTEXT
from services.console.figures.topic_rows import topic_rows
from services.console.pages.render import page
from services.console.state.topic_counts import TopicCounts
from services.console.tasks.feed import FOLDED_TOPICS
from services.console.views.schema_fields import SchemaField, schema_fields


@dataclass(frozen=True, slots=True)
class ShownContract:
    contract: Contract[Any]
    fields: list[SchemaField]
    schema: str
    examples: list[str]


async def contracts(request: web.Request) -> web.Response:
    """The contracts to ask for, with plugins."""
    found = [
        ShownContract(
            contract,
            schema_fields(contract.schema()),
            _json(contract.schema()),
            [_json(example) for example in contract.examples],
        )
        for contract in request.app[CONTEXT].registry
    ]
    return page(request, "contracts.html", contracts=found)


async def asyncapi(_: web.Request) -> web.Response:
    """The document that `answerbus contracts asyncapi` writes."""
    return web.Response(text=bus_document.text(), content_type="application/json")


async def runbook(request: web.Request) -> web.Response:
    """A page of docs/runbooks, which an alert links; infra/runbook_pages.py writes them."""
    name = request.match_info["name"]
    try:
        return page(request, f"runbooks/{name}.html")
    except TemplateNotFound:
        raise web.HTTPNotFound(text=f"There is no runbook {name}.") from None


async def topics(request: web.Request) -> web.Response:
    """Where everything is, how much comes, and who is how far behind."""
    context = request.app[CONTEXT]
    kafka, polled = context.settings.kafka, context.topic_poller.results
    prefix = kafka.topic_prefix
    shown = {**dict.fromkeys(TOPICS), **polled.topics}
    settings = [
        (topic, topic.full_name(prefix), sorted(topic.settings().items())) for topic in shown
    ]

    def counts_of(topic: Topic) -> TopicCounts | None:
        if topic in FOLDED_TOPICS:
            return context.feed.state.topic_counts
        return context.topic_counter.counts if topic in context.topic_counter.topics else None

    return page(
        request,
        "topics.html",
        topics=settings,
        rows=topic_rows(shown, counts_of, prefix, int(context.now() * 1000)),
        polled=polled,
        prefix=prefix,
        worker_group=kafka.worker_group,
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
