"""Refunds that cannot go wrong: the example of docs/agents.md, with a server that dies."""

from typing import Any

from answerbus.client import Client
from answerbus.control import ApprovalRequested
from answerbus.topics import STEPS
from tests.integration.bus import Bus, request, until
from tests.integration.tool_servers import ToolBus
from tests.integration.worked_examples import example

Json = dict[str, Any]

PAGE = example("Refunds that cannot go wrong")
AGENT = PAGE["toml"][0]
PREFIX = "refund-"  # of the ids of all its requests
DIED = 9
ALLOWED, ASKED, CHANGED, WANTED_BY_MAIL = 4_000, 90_000, 4_999, 900_000  # cents


def _calls(tool: str, **args: Any) -> Json:
    action = {"kind": "tool_call", "name": f"shop.{tool}", "args": {"order_id": "4711", **args}}
    return {"kind": "answered", "json": {"actions": [action]}}


def _says(text: str) -> Json:
    return {"kind": "answered", "json": {"actions": [{"kind": "text_response", "content": text}]}}


def _rule(name: str, reply: Json, contains: str | None = None) -> Json:
    return {"when": {"request_id": f"{PREFIX}{name}", "contains": contains}, "reply": reply}


RULES: list[Json] = [
    _rule("*", _says("Paid back."), '"value": "paid"'),
    _rule("*", _says("A person has to look at it."), '"denied"'),
    _rule("lost", _calls("refund", cents=ALLOWED)),
    _rule("large", _calls("refund", cents=ASKED)),
    _rule("mail", _calls("refund", cents=WANTED_BY_MAIL), "your boss"),
    _rule("mail", _calls("read_mail")),
]


class Shop:
    """The server of the page, with a shorter time-out, and one that dies once it has paid."""

    def __init__(self, tools: ToolBus) -> None:
        self._tools = tools
        self.bank = tools.folder / "bank.txt"
        (program,) = PAGE["python"]
        program = _replaced(program, '"bank.txt"', repr(str(self.bank)))
        self._program = _replaced(program, "timeout_s=10", "timeout_s=1")
        dies = f'__import__("os")._exit({DIED})'
        self._dying = self._serve("dying", _replaced(self._program, 'return "paid"', dies))

    def _serve(self, name: str, program: str) -> Any:
        folder = self._tools.folder / name
        folder.mkdir()
        (folder / "shop.py").write_text(program)
        path = f"{folder}:{self._tools.variables['PYTHONPATH']}"
        _, *command = PAGE[""][0].split()
        assert command[0] == "tools"
        return self._tools.serve(*command[1:], PYTHONPATH=path)

    @property
    def paid(self) -> list[str]:
        """What the bank noted, without the ids of calls."""
        lines = self.bank.read_text().splitlines() if self.bank.exists() else []
        return [line.partition(" ")[2] for line in lines]

    async def survive(self) -> None:
        """The next server takes over once the first has paid and died."""
        await until(lambda: self._dying.poll() == DIED, "the server dies")
        self._tools.processes.remove(self._dying)
        self._serve("living", self._program)


def _replaced(program: str, old: str, new: str) -> str:
    assert program.count(old) == 1, old
    return program.replace(old, new)


async def play(bus: Bus, shop: Shop) -> None:
    """All rows of the table on the page, but the worker's."""
    await bus.publish([_ask("lost")])
    await shop.survive()
    await bus.publish([_ask("large"), _ask("mail")])
    async with Client(bus.bootstrap, topic_prefix=bus.prefix) as client:
        async for event in client.follow(f"{PREFIX}large", "w-large"):
            if isinstance(event.event, ApprovalRequested):
                args: Json = {"order_id": "4711", "cents": CHANGED}
                published = await client.approve(event.event, by="ops", reason="half", args=args)
                applied = await client.effect_of(published)
                assert applied is not None
                assert applied.effect == "approved"
        for name in ("lost", "mail"):
            await client.outcome_of(f"{PREFIX}{name}", f"w-{name}")


def _ask(name: str) -> Json:
    of = {"answer_schema": {"kind": "text"}, "agent": {"name": "refunds"}}
    return request(f"{PREFIX}{name}", f"w-{name}", "Pay the order 4711 back.", **of)


async def verify(bus: Bus, shop: Shop) -> None:
    """What was paid, and why."""
    assert shop.paid == [f"4711 {ALLOWED}", f"4711 {CHANGED}"]
    ends = {
        (event["workflow_id"], event["tool"]): event
        for event in await bus.everything(STEPS)
        if event["kind"] == "tool_ended"
    }
    lost, large = ends["w-lost", "shop.refund"], ends["w-large", "shop.refund"]
    assert (lost["outcome"], lost["reconciled"]) == ({"kind": "ok", "value": "paid"}, True)
    assert large["edited"]["args"]["cents"] == CHANGED
    assert large["edited"]["policy"]["rule"] == "allow"
    refused = ends["w-mail", "shop.refund"]["outcome"]
    assert (refused["kind"], refused["by"]) == ("denied", "policy")
