"""What the doctor tells of lanes that are not open."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from services.commands.doctor import examine
from services.commands.doctor.examine import addresses, disagreements, reason_of
from services.settings.settings import Settings


def test_who_is_asked() -> None:
    consoles = {"workers": ("http://10.0.0.7:8080", "http://127.0.0.1:8080")}

    assert addresses(Settings.model_validate({"console": consoles})) == [
        "http://127.0.0.1:8080",
        "http://10.0.0.7:8080",
    ]
    assert addresses(Settings.model_validate({"worker": {"health": "127.0.0.1:0"}})) == []


def test_a_lane_that_opens_says_how_far_it_is() -> None:
    reason = "lanes are opening, and have read 5 of 10 offsets of ledger and retries (50 %): 3"

    assert reason_of({"reasons": [reason], "stuck": {}}) == reason
    assert reason_of({"reasons": [], "stuck": {"3": "it is"}}) == "lane 3: it is"
    assert reason_of({"reasons": [], "stuck": {}}) is None
    assert reason_of({"reasons": "?"}) is None


def test_workers_that_disagree_on_an_agent_are_named() -> None:
    same, other = "sha256:" + "1" * 64, "sha256:" + "2" * 64
    fields = {
        "http://a": {"support.v3": same, "echo.v1": same},
        "http://b": {"support.v3": other, "echo.v1": same},
        "http://c": {"support.v3": same},
    }
    echo, support = disagreements(fields)

    assert echo.startswith("workers disagree on the agent echo.v1: ")
    assert "unknown at http://c" in echo
    assert "sha256:111111111111 at http://a, http://c; sha256:222222222222 at http://b" in support
    assert list(disagreements({"http://a": fields["http://a"]})) == []
    assert list(disagreements({})) == []


@pytest.mark.parametrize("body", [b"[" * 200_000, b"[]"])
async def test_what_is_no_answer_of_a_worker_ends_no_examination(body: bytes) -> None:
    """The console's tests of polling have more of them: both ask workers in the same way."""

    async def ready(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    application = web.Application()
    application.add_routes([web.get("/ready", ready)])
    async with TestServer(application) as server:
        console = {"workers": (str(server.make_url("")),)}
        table = {"console": console, "worker": {"health": "127.0.0.1:0"}}
        settings = Settings.model_validate(table)

        assert [found async for found in examine._worker_lanes(settings)] == []
