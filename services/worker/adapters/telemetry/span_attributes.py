"""Ids, counts and outcomes as attributes of spans, by OpenTelemetry's names; never content."""

from collections.abc import Mapping, Sequence

from answerbus.dead_letter import DeadLetter
from answerbus.step import ToolEnded
from services.telemetry.span import Attributes, genai_provider
from services.worker.core.attempt.plan import ProfileFacts
from services.worker.core.attempt.reply import Rejected, facts_of
from services.worker.core.outcome.call import Call
from services.worker.core.request.lane_request import LaneRequest
from services.worker.core.run.children import Ended

_Known = Mapping[str, str | int | float | bool | Sequence[str] | None]


def of_profile(profile: ProfileFacts) -> dict[str, str]:
    """The provider and model of a call."""
    return {
        "gen_ai.provider.name": genai_provider(profile.provider),
        "gen_ai.request.model": profile.model,
    }


def of_chat(call: Call) -> dict[str, str]:
    """The labels that metrics of calls are counted by."""
    return {"gen_ai.operation.name": "chat", **of_profile(call.plan.profile)}


def of_call(call: Call, outcome: str) -> Attributes:
    """An attempt, and its outcome in the audit."""
    facts, usage = facts_of(call.reply), call.usage
    return _stated(
        {
            **of_chat(call),
            "gen_ai.request.max_tokens": call.prompt.max_output_tokens,
            "gen_ai.output.type": "text" if call.plan.schema.schema is None else "json",
            "gen_ai.response.model": call.model.model if facts.model else None,
            "gen_ai.response.finish_reasons": (facts.stop_reason,) if facts.stop_reason else None,
            "gen_ai.usage.input_tokens": usage.input_tokens,
            "gen_ai.usage.output_tokens": usage.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": usage.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
            "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
            "gen_ai.conversation.id": call.request.workflow_id,
            "error.type": error_of(call),
            "answerbus.profile": call.plan.profile.name,
            "answerbus.request.id": call.spend.request_id,
            "answerbus.attempt": call.spend.attempt,
            "answerbus.attempt.counted": call.is_counted,
            "answerbus.outcome": outcome,
        }
    )


def of_request(lane_request: LaneRequest, profile: ProfileFacts | None, ended: Ended) -> Attributes:
    """A request, or a run; the tokens of a run are those of its calls, and are not said again."""
    request, origin = lane_request.request, lane_request.origin
    of_run = _of_run(lane_request, profile) if request.agent else {}
    error = {"error.type": ended.cause.kind} if isinstance(ended, DeadLetter) else {}
    return {
        **of_run,
        **error,
        "gen_ai.conversation.id": request.workflow_id,
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.destination.name": origin.topic,
        "messaging.destination.partition.id": str(origin.partition),
        "messaging.kafka.offset": origin.offset,
        "answerbus.request.id": request.request_id,
        "answerbus.workflow.id": request.workflow_id,
        "answerbus.profile": request.profile,
        "answerbus.outcome": ended.kind,
    }


def _of_run(lane_request: LaneRequest, profile: ProfileFacts | None) -> Attributes:
    agent = lane_request.run.agent if lane_request.run else lane_request.request.agent
    version = agent.version if agent else None
    return _stated(
        {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent.name if agent else None,
            "gen_ai.agent.version": None if version is None else str(version),
            **(of_profile(profile) if profile else {}),
        }
    )


def of_tool_call(tool: str, end: ToolEnded) -> Attributes:
    outcome = end.outcome.kind
    return _stated(
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": end.call_id,
            "gen_ai.conversation.id": end.workflow_id,
            "answerbus.request.id": end.request_id,
            "answerbus.outcome": outcome,
            "error.type": None if outcome == "ok" else outcome,
        }
    )


def error_of(call: Call) -> str | None:
    """The kind of what went wrong, if anything did."""
    match call.reply:
        case Rejected():
            return "rejected"
        case _:
            return call.failure.kind if call.failure else None


def _stated(known: _Known) -> dict[str, str | int | float | bool | Sequence[str]]:
    return {name: value for name, value in known.items() if value is not None}
