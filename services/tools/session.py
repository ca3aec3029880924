"""Checks one toolset's server: sends the cases and collects the answers."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from answerbus.client.bus import Bus
from answerbus.envelope import Undecodable
from answerbus.reconcile import ToolReconciled
from answerbus.tool_result import ToolResult
from answerbus.toolset_card import ToolCard, ToolsetCard
from answerbus.topics import TOOL_RESULTS
from services.tools.caller import Caller, Reply, calling, cards
from services.tools.check.call_by_hand import HandCaller
from services.tools.check.cases import OTHER_MEMBER, UNAPPROVED, Case, CaseBuilder, Ruling, Sample
from services.tools.check.judge import (
    card_rulings,
    fault_of,
    form_ruling,
    found_rulings,
    rulings,
    unreadable,
)
from services.worker.core.schema.validator import SchemaValidator, compile_schema

QUIET_S = 1.0  # after the last answer: for answers that should not come
NO_SAMPLE = "name a call that may run: --call TOOL '{…}'"
SKIPPED_WITHOUT_SAMPLE = ("a call is answered", "an expired call does not run")


@dataclass(frozen=True, slots=True)
class CheckedServer:
    """The toolset to check, the caller, and the time that an answer may take."""

    toolset: str
    caller: HandCaller
    at: datetime
    timeout_s: float
    sample: Sample | None


@dataclass
class _Seen:
    """The server's records for our calls."""

    results: defaultdict[str, list[ToolResult]] = field(default_factory=lambda: defaultdict(list))
    findings: defaultdict[str, list[ToolReconciled]] = field(
        default_factory=lambda: defaultdict(list)
    )
    faults: list[str] = field(default_factory=list)

    def take(self, caller: HandCaller, reply: Reply) -> None:
        match reply.event:
            case (ToolResult() | ToolReconciled()) as said if said.call_id.startswith(
                f"{caller.name}."
            ):
                if isinstance(said, ToolResult):
                    self.results[said.call_id].append(said)
                else:
                    self.findings[said.call_id].append(said)
                if fault := fault_of(caller, reply.partition, reply.key, said):
                    self.faults.append(fault)
                if reply.problems:
                    self.faults.append(unreadable(reply.problems))
            case Undecodable(workflow_id=found, problems=problems) if (
                found == caller.name or reply.key == caller.name.encode()
            ):
                self.faults.append(unreadable(problems))
            case _:
                pass


async def check(bus: Bus, checked: CheckedServer, say: Callable[[str], None]) -> Sequence[Ruling]:
    """Every ruling, in the order of the rules. Raises BusUnavailable, SetUpError."""
    async with calling(bus, checked.toolset) as caller:
        card = await card_of(bus, checked.toolset)
        cases, last = _cases(checked, card)
        say(f"{len(cases)} cases are sent")
        seen = _Seen()
        for case in cases:
            for record in case.records:
                if case.aborted:
                    await caller.publish_aborted(record, f"{bus.prefix}.tools.check")
                else:
                    await caller.publish([record])
        await caller.publish(last.records)
        awaited = {case.call_id for case in (*cases, last) if case.expected != "nothing"} - {None}
        await _until(caller, checked, lambda: awaited <= seen.results.keys(), seen, say)
        questions = _questions(checked, card)
        for case in questions:
            await caller.publish(case.records)
        asked = {case.call_id for case in questions}
        if questions:
            await _until(caller, checked, lambda: asked <= seen.findings.keys(), seen, say)
    found = [*card_rulings(card), *rulings(cases, last, seen.results), form_ruling(seen.faults)]
    found += found_rulings(questions, seen.findings)
    if checked.sample is None:
        found += [Ruling(rule, "skipped", NO_SAMPLE) for rule in SKIPPED_WITHOUT_SAMPLE]
    return [*found, *unproved_approval(card, checked.sample)]


def unproved_approval(card: ToolsetCard | None, sample: Sample | None) -> Sequence[Ruling]:
    """A server without this lock would run the call: only the sample's tool is tried."""
    guarded = [tool.name for tool in card.tools if tool.approval == "always"] if card else []
    if not guarded or (sample and sample.tool in guarded):
        return ()
    said = f"name a call of {' or '.join(guarded)} that may run: --call TOOL '{{…}}' --approve"
    return (Ruling(UNAPPROVED, "skipped", said),)


async def card_of(bus: Bus, toolset: str) -> ToolsetCard | None:
    """The card of a toolset, as announced last."""
    found = (card for card in await cards(bus) if isinstance(card, ToolsetCard))
    return next((card for card in found if card.toolset == toolset), None)


def _cases(checked: CheckedServer, card: ToolsetCard | None) -> tuple[Sequence[Case], Case]:
    maker = CaseBuilder(checked.caller, checked.toolset, checked.at, checked.timeout_s)
    cases = list(maker.without_effects())
    if sample := checked.sample:
        tool = next((one for one in card.tools if one.name == sample.tool), None) if card else None
        approval = tool is not None and tool.approval == "always"
        wrong = wrong_args(tool) if tool else None
        cases += maker.with_sample(sample, wrong_args=wrong, needs_approval=approval)
    return cases, maker.last()


def _questions(checked: CheckedServer, card: ToolsetCard | None) -> Sequence[Case]:
    reconcilable = {tool.name for tool in card.tools if tool.reconcilable} if card else set()
    maker = CaseBuilder(checked.caller, checked.toolset, checked.at, checked.timeout_s)
    return maker.questions(reconcilable, checked.sample)


def wrong_args(tool: ToolCard) -> dict[str, JsonValue] | None:
    """Arguments that the tool's schema refuses; None where it refuses none of those tried."""
    compiled = compile_schema(tool.args_schema)
    tried: tuple[dict[str, JsonValue], ...] = ({OTHER_MEMBER: [None]}, {})
    if not isinstance(compiled, SchemaValidator):
        return None
    return next((args for args in tried if compiled.problems(args)), None)


async def _until(
    caller: Caller,
    checked: CheckedServer,
    has_all: Callable[[], bool],
    seen: _Seen,
    say: Callable[[str], None],
) -> None:
    """Until all that must come has come, and a moment longer; or until the time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + checked.timeout_s
    is_complete = False
    while loop.time() < until:
        for reply in await caller.replies():
            seen.take(checked.caller, reply)
        if not is_complete and has_all():
            say("everything is answered; what should not come is waited for")
            is_complete = True
            until = min(until, loop.time() + QUIET_S)


def hand_caller(bus: Bus, name: str, token: str) -> HandCaller:
    """A caller whose answers go to the first partition."""
    return HandCaller(name, TOOL_RESULTS.full_name(bus.prefix), 0, token)
