"""Cards of toolsets: what is taken, and what leaves the tools before as they are."""

from typing import Any

import pytest

from answerbus.private.runs import ToolDefinition
from answerbus.toolset_card import ApprovalRule, ToolAccepted, ToolCard, ToolsetCard
from services.worker.core.run import accepted_tools
from services.worker.core.run.accepted_tools import AcceptedTools
from services.worker.core.run.known_tools import NO_TOPIC, KnownTools
from services.worker.core.run.run import described_tools
from tests.unit.worker.core.run_builders import NOW, ORDER, definition, tool


def card(*names: str, toolset: str = "orders", **schema: str) -> ToolsetCard:
    tools = (ToolCard(name=name, args_schema=dict(schema) or ORDER) for name in names)
    return ToolsetCard(toolset=toolset, tools=tuple(tools))


def test_the_last_card_of_a_toolset_says_its_tools() -> None:
    known_tools = KnownTools()
    assert known_tools.take(card("get", "pay")) is None
    assert known_tools.take(card("echo", toolset="echo")) is None

    assert known_tools.take(card("get")) is None

    assert set(known_tools.tools) == {"orders.get", "echo.echo"}


def test_a_toolset_that_is_not_served_any_more_has_no_tools() -> None:
    known_tools = KnownTools()
    known_tools.take(card("get"))

    known_tools.end("orders")

    assert known_tools.tools == {}


def test_a_hostile_card_is_not_taken_and_the_one_before_stays() -> None:
    known_tools = KnownTools()
    known_tools.take(card("get"))

    fault = known_tools.take(card("get", "pay", **{"$ref": "http://example.com/x"}))

    assert fault is not None
    assert known_tools.refused == {"orders": fault}
    assert set(known_tools.tools) == {"orders.get"}


def guarded(approval: ApprovalRule = "always", **more: Any) -> ToolsetCard:
    """One tool that needs approval, or needed it."""
    found = ToolCard(name="refund", args_schema=ORDER, approval=approval, **more)
    return ToolsetCard(toolset="orders", tools=(found,))


CHANGED = {
    "approval": guarded("never"),
    "description": guarded(description="Pay all of it back."),
    "delivery": guarded(delivery="at_most_once"),
    "whose server": guarded().model_copy(update={"written_by": "mcp"}),
}


def accepted(card: ToolsetCard) -> ToolAccepted:
    """What an operator accepts, or a worker writes."""
    (tool,) = card.tools
    return ToolAccepted(toolset=card.toolset, card=tool, written_by=card.written_by, at=NOW)


@pytest.mark.parametrize("change", CHANGED)
@pytest.mark.parametrize("is_ended", [False, True])
def test_a_tool_that_needs_approval_and_changes_is_stopped_until_it_is_accepted(
    change: str, is_ended: bool
) -> None:
    known_tools, after = KnownTools(), CHANGED[change]
    assert known_tools.take(guarded()) is None
    if is_ended:  # a null record is no way around it
        known_tools.end("orders")

    fault = known_tools.take(after)
    assert fault is not None
    assert "answerbus tools accept orders" in fault
    assert known_tools.notes() == [f"toolset orders: {fault}"]
    assert (known_tools.tools, known_tools.stopped) == ({}, {"orders.refund"})
    assert known_tools.stopped_by_toolset == {"orders": 1}

    known_tools.accept(accepted(after))
    assert known_tools.tools["orders.refund"].card == after.tools[0]
    assert (known_tools.notes(), known_tools.stopped) == ([], set())
    assert known_tools.take(guarded("never", description="Another one.")) is not None


def test_a_tool_that_is_again_as_it_was_is_called_again() -> None:
    known_tools = KnownTools()
    known_tools.take(guarded())
    known_tools.take(guarded(description="Pay all of it back."))

    assert known_tools.take(guarded()) is None
    assert (set(known_tools.tools), known_tools.stopped) == ({"orders.refund"}, set())


def test_a_worker_that_starts_holds_a_card_against_what_was_seen_before_it() -> None:
    before = KnownTools()
    before.take(guarded())
    (seen,) = before.accepted.unwritten
    record = ToolAccepted(toolset=seen.toolset, card=seen.card, written_by=seen.written_by, at=NOW)

    after = KnownTools()
    after.accept(record)
    assert after.take(guarded("never")) is not None
    assert (after.tools, after.stopped) == ({}, {"orders.refund"})
    assert after.accepted.unwritten == []


def test_what_is_seen_first_is_written_once_and_stricter_rules_too() -> None:
    known_tools = KnownTools()
    for rule in ("never", "after_untrusted", "always"):
        known_tools.take(guarded(rule))
        for one in known_tools.accepted.unwritten:
            assert one.card.approval == rule
            known_tools.accept(accepted(guarded(rule)))
        known_tools.take(guarded(rule))
        assert known_tools.accepted.unwritten == []


def test_of_two_workers_that_saw_other_cards_first_the_topic_decides() -> None:
    known_tools = KnownTools()
    known_tools.take(guarded())
    known_tools.accept(accepted(guarded(description="Another one.")))
    assert known_tools.stopped == {"orders.refund"}

    known_tools.forget("orders.refund")
    assert known_tools.stopped == set()
    (again,) = known_tools.accepted.unwritten
    assert again.card == guarded().tools[0]


def test_only_the_tools_that_need_approval_and_changed_are_stopped() -> None:
    get = ToolCard(name="get", args_schema=ORDER)
    one, known_tools = guarded(), KnownTools()
    known_tools.take(one.model_copy(update={"tools": (*one.tools, get)}))
    other = guarded(description="Pay all of it back.")
    new_get = get.model_copy(update={"description": "The state of an order."})

    known_tools.take(other.model_copy(update={"tools": (*other.tools, new_get)}))

    assert {name: tool.card for name, tool in known_tools.tools.items()} == {"orders.get": new_get}
    known_tools.look(lambda _: False)
    known_tools.look(lambda _: True)
    assert set(known_tools.tools) == {"orders.get"}
    assert "accept" in known_tools.refused["orders"]


def test_a_pin_is_an_acceptance_as_long_as_it_stands() -> None:
    known_tools, after = KnownTools(), guarded(description="Pay all of it back.")
    known_tools.take(guarded())
    known_tools.take(after)

    known_tools.pin({"orders": after.computed_digest()})
    assert known_tools.tools["orders.refund"].card == after.tools[0]
    known_tools.pin({})
    assert (known_tools.tools, known_tools.stopped) == ({}, {"orders.refund"})
    known_tools.pin({"orders": guarded().computed_digest()})
    assert known_tools.stopped == {"orders.refund"}, "the server says what is not pinned"


def test_a_changed_card_that_cannot_be_taken_stops_its_tools_too() -> None:
    known_tools = KnownTools()
    known_tools.take(guarded())
    hostile = ToolCard(name="refund", args_schema={"$ref": "http://x.example/y"}, approval="always")
    fault = known_tools.take(ToolsetCard(toolset="orders", tools=(hostile,)))
    assert fault is not None
    assert "schema" in fault
    assert (known_tools.tools, known_tools.stopped) == ({}, {"orders.refund"})


def test_a_tool_that_the_settings_guard_changes_only_with_consent() -> None:
    known_tools = KnownTools(accepted=AcceptedTools(lambda: ["orders.refund"]))
    assert known_tools.take(guarded("never")) is None
    assert known_tools.take(guarded("never", description="Pay all of it back.")) is not None
    assert known_tools.take(guarded("never")) is None
    assert known_tools.notes() == []

    free = KnownTools()
    assert free.take(guarded("never")) is None
    assert free.take(guarded("after_untrusted")) is None, "it may become stricter"
    assert free.take(guarded("always")) is None, "and stricter still"
    assert free.take(guarded("never")) is not None


def test_what_is_not_kept_is_said() -> None:
    known_tools = KnownTools(not_kept="no topic")
    assert known_tools.notes() == []
    known_tools.take(guarded())
    (note,) = known_tools.notes()
    assert "no topic" in note


def test_a_pinned_toolset_is_taken_only_as_it_was_pinned() -> None:
    known_tools = KnownTools({"orders": card("get").computed_digest()})

    assert known_tools.take(card("get")) is None
    fault = known_tools.take(card("get", "pay"))

    assert fault is not None
    assert "pin" in fault
    assert set(known_tools.tools) == {"orders.get"}


def test_other_pins_hold_for_cards_that_were_seen_before() -> None:
    known_tools = KnownTools({"orders": card("get").computed_digest()})
    known_tools.take(card("get"))
    known_tools.take(card("get", "pay"))

    known_tools.pin({"orders": card("get", "pay").computed_digest()})
    assert (set(known_tools.tools), known_tools.refused) == ({"orders.get", "orders.pay"}, {})

    known_tools.pin({"orders": card("refund").computed_digest()})
    assert (set(known_tools.tools), set(known_tools.refused)) == (set(), {"orders"})

    known_tools.pin({})
    assert (set(known_tools.tools), known_tools.refused) == ({"orders.get", "orders.pay"}, {})


def test_a_pin_brings_back_no_toolset_that_is_not_served_any_more() -> None:
    known_tools = KnownTools()
    known_tools.take(card("get"))
    known_tools.end("orders")

    known_tools.pin({})

    assert known_tools.tools == {}


def test_a_toolset_has_tools_only_while_the_topic_of_its_calls_is_there() -> None:
    known_tools, there = KnownTools(), set[str]()
    known_tools.look(there.__contains__)
    assert known_tools.take(card("get")) == NO_TOPIC
    assert (known_tools.tools, known_tools.refused) == ({}, {"orders": NO_TOPIC})
    assert known_tools.waits_for_topics

    assert known_tools.look(lambda toolset: toolset == "orders") == []
    assert (set(known_tools.tools), known_tools.refused) == ({"orders.get"}, {})
    assert not known_tools.waits_for_topics

    assert known_tools.look(lambda _: False) == ["orders"]
    assert (known_tools.tools, known_tools.refused) == ({}, {"orders": NO_TOPIC})
    assert known_tools.look(lambda _: False) == [], "that is said once"

    known_tools.end("orders")
    known_tools.look(lambda _: True)
    assert (known_tools.tools, known_tools.refused) == ({}, {})


def test_to_accept_a_tool_compares_no_other_tool_of_its_card(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the tools of a new toolset are compared as often as there are tools, squared."""
    compared, is_changed = list[str](), accepted_tools.is_changed

    def counted(before: ToolDefinition, after: ToolDefinition) -> bool:
        compared.append(after.name)
        return is_changed(before, after)

    monkeypatch.setattr(accepted_tools, "is_changed", counted)
    many = [ToolCard(name=f"t{n}", args_schema=ORDER, approval="always") for n in range(9)]
    known_tools = KnownTools()
    known_tools.take(ToolsetCard(toolset="orders", tools=tuple(many)))
    for one in many:
        record = ToolAccepted(toolset="orders", card=one.model_copy(), at=NOW)
        known_tools.accept(record)
        known_tools.accept(record.model_copy(update={"card": one.model_copy()}))

    assert len(compared) <= 3 * len(many)
    assert not known_tools.stopped


def test_what_is_accepted_hides_no_refused_record() -> None:
    known_tools = KnownTools()
    known_tools.take(guarded())
    known_tools.refuse("orders", "a record under another key")

    known_tools.accept(accepted(guarded()))
    assert known_tools.faults == {"orders": "a record under another key"}

    known_tools.take(guarded())
    assert known_tools.faults == {}


def test_a_tool_of_the_longest_name_is_described() -> None:
    (fact,) = described_tools(definition(tool(f"{'s' * 64}.{'t' * 128}")))

    assert fact.name.startswith(f"tool {'s' * 64}.t")
