"""Contracts, topics and the whole bus, as documentation."""

import json

from aiohttp import web

from answerbus import asyncapi as bus_document
from answerbus.topics import TOPICS
from services.console.context import CONTEXT
from services.console.pages.render import page


async def contracts(request: web.Request) -> web.Response:
    """What may be asked for, with plugins."""
    found = [
        (contract, json.dumps(contract.schema(), indent=2, ensure_ascii=False))
        for contract in request.app[CONTEXT].registry
    ]
    return page(request, "contracts.html", contracts=found)


async def asyncapi(_: web.Request) -> web.Response:
    """What `answerbus contracts asyncapi` writes."""
    return web.Response(text=bus_document.text(), content_type="application/json")


async def topics(request: web.Request) -> web.Response:
    """Where everything stands."""
    prefix = request.app[CONTEXT].settings.kafka.topic_prefix
    rows = [(topic, topic.full_name(prefix), sorted(topic.settings().items())) for topic in TOPICS]
    return page(request, "topics.html", topics=rows)
