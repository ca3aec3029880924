"""What a history says of runs: steps, calls, their deliveries and ends, each by its id."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

from tests.chaos.audit.history import CALL_TOPICS, Deed, Event, History, Json

CHILD_TOOLS = {"delegate", "propose"}  # whose calls are answered by children
ASK_PERSON = "ask_person"  # whose calls are answered by people

_Value = TypeVar("_Value")


class RunRecords:
    """Everything in order of offsets, which within a topic is the order of commits of one lane."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def is_empty(self) -> bool:
        """Whether no request had an agent, and nothing was written as if one had."""
        return not self.requests and not self.history.events["steps"] and not self.delivered

    @cached_property
    def requests(self) -> Mapping[str, Json]:
        """The requests with an agent, by id."""
        found = self.history.requests.items()
        return {id_: body for id_, body in found if body.get("agent")}

    @cached_property
    def chains(self) -> Mapping[str, list[Event]]:
        """Steps and ends of calls by request, as they are chained."""
        events = self.history.events["steps"]
        chained = (e for e in events if e.body["kind"] in {"step", "tool_ended"})
        return _grouped((event.body["request_id"], event) for event in chained)

    @cached_property
    def steps(self) -> Mapping[str, list[Event]]:
        """By request."""
        return _grouped((e.body["request_id"], e) for e in self._events_of("step"))

    @cached_property
    def stepped(self) -> Mapping[str, list[int]]:
        """The attempts that say that they became a step, by request."""
        found = self.history.attempts.items()
        steps = (spend for spend, text in found if text[0].body["outcome"] == "step")
        return _grouped(sorted(steps))

    @cached_property
    def asked(self) -> Mapping[str, list[tuple[Event, Json]]]:
        """By call id: the step that asks for it, and the call in that step."""
        pairs = ((step, call) for step in self._events_of("step") for call in step.body["calls"])
        return _grouped((call["call_id"], (step, call)) for step, call in pairs)

    @cached_property
    def ended(self) -> Mapping[str, list[Event]]:
        """The ends of calls, by call id."""
        return _grouped((e.body["call_id"], e) for e in self._events_of("tool_ended"))

    @cached_property
    def controls(self) -> list[Event]:
        """How controls were applied."""
        return list(self._events_of("control_applied"))

    @cached_property
    def approvals(self) -> Mapping[str, list[Event]]:
        """The approvals that had effect, by call id."""
        found = (one for one in self.controls if one.body["effect"] == "approved")
        return _grouped((one.body["control"]["call_id"], one) for one in found)

    @cached_property
    def delivered(self) -> Mapping[str, list[Event]]:
        """Calls as they went out to tool servers, by call id."""
        return _grouped((e.body["call_id"], e) for e in self._to_servers("tool_call"))

    @cached_property
    def sent(self) -> Mapping[str, list[Event]]:
        """The same, and calls with which a server was to go on; each time the body is the call."""
        going_on = (Event(e.record, e.body["call"]) for e in self._to_servers("tool_continue"))
        events = [*self._to_servers("tool_call"), *going_on]
        events.sort(key=lambda event: event.record.timestamp)
        return _grouped((event.body["call_id"], event) for event in events)

    @cached_property
    def questions(self) -> Mapping[str, list[Json]]:
        """Whether a call ran: what servers were asked, by call id."""
        return _grouped((e.body["call_id"], e.body) for e in self._to_servers("tool_reconcile"))

    @cached_property
    def results(self) -> Mapping[str, list[Event]]:
        """What tool servers answered, by call id."""
        events = self.history.events["tool-results"]
        found = (event for event in events if event.body["kind"] == "tool_result")
        return _grouped((event.body["call_id"], event) for event in found)

    @cached_property
    def findings(self) -> Mapping[str, Json]:
        """Findings of servers on calls to which no result had come, by token of the question.

        A server that died may answer a question again: its first answer is the one that counts.
        """
        questions = {one["reply"]["token"] for asked in self.questions.values() for one in asked}
        events = (event.body for event in self.history.events["tool-results"])
        answers: dict[str, Json] = {}
        for body in events:
            if body["kind"] == "tool_reconciled" and body["token"] in questions:
                answers.setdefault(body["token"], body["finding"])
        return answers

    @cached_property
    def found(self) -> Mapping[str, list[Json]]:
        """The same by call id."""
        return _grouped(
            (call_id, self.findings[token])
            for call_id, asked in self.questions.items()
            for token in (one["reply"]["token"] for one in asked)
            if token in self.findings
        )

    @cached_property
    def deeds(self) -> Mapping[str, list[Deed]]:
        """What tools themselves noted, by call id."""
        return _grouped((deed.call_id, deed) for deed in self.history.deeds or ())

    @cached_property
    def definitions(self) -> Mapping[str, Json]:
        """The definition that was frozen into each run, by request id."""
        events = self.history.events["runs"]
        runs = (event.body for event in events if event.body["kind"] == "run")
        return {run["request"]["request_id"]: run["definition"] for run in runs}

    @cached_property
    def parents(self) -> Mapping[str, Json]:
        """Of each child, by its id: whose it is, as its terminal says.

        What a tool asks is a child if it was read in time: else nothing is spent on it.
        """
        history = self.history
        found = ((id_, text[0].body) for id_, text in history.terminals.items())
        return {
            id_: body["parent"]
            for id_, body in found
            if body.get("parent") and (id_ in history.children or (id_, 1) in history.attempts)
        }

    def above(self, request_id: str) -> Iterator[str]:
        """The run that asked a child, the one that asked that, and so on."""
        parent = self.parents.get(request_id)
        while parent is not None:
            yield parent["request_id"]
            parent = self.parents.get(parent["request_id"])

    def cards(self, request_id: str) -> Mapping[str, Json]:
        """The cards of a run's tools, by the names that models use."""
        tools = self.definitions.get(request_id, {}).get("tools", [])
        return {f"{tool['toolset']}.{tool['card']['name']}": tool["card"] for tool in tools}

    def card(self, call_id: str) -> Json | None:
        """That of the tool of a call; None for a tool that its agent does not have."""
        asked = self.asked.get(call_id)
        cards = self.cards(asked[0][0].body["request_id"]) if asked else {}
        return cards.get(asked[0][1]["tool"]) if asked else None

    def policies(self, request_id: str) -> Mapping[str, Json]:
        """The policies of a run's tools, by the names that models use."""
        tools = self.definitions.get(request_id, {}).get("tools", [])
        found = {f"{tool['toolset']}.{tool['card']['name']}": tool.get("policy") for tool in tools}
        return {name: policy for name, policy in found.items() if policy}

    def _to_servers(self, kind: str) -> Iterator[Event]:
        topics = self.history.events.items()
        events = (event for topic, e in topics if topic.startswith(CALL_TOPICS) for event in e)
        return (event for event in events if event.body["kind"] == kind)

    def _events_of(self, kind: str) -> Iterator[Event]:
        return (event for event in self.history.events["steps"] if event.body["kind"] == kind)


def _grouped(pairs: Iterable[tuple[str, _Value]]) -> dict[str, list[_Value]]:
    groups: dict[str, list[_Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)
