"""The table of docs/conformance.md: each provider that ships, by the kit for plug-ins.

`python -m tests.providers.conformance_table` writes it again.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from services.commands.providers.conformance import CHECKS
from services.commands.providers.running import checked_in_time
from services.settings.profiles import OpenAIProfile
from services.worker.adapters.providers.kinds.kind import SampleReplies, SampleReply
from services.worker.adapters.providers.kinds.known import SHIPPED, Kind
from services.worker.adapters.providers.kinds.openai import OpenAIKind

Json = dict[str, Any]

PAGE = Path(__file__).parents[2] / "docs/conformance.md"
BEGIN = "<!-- written by tests.providers.conformance_table -->\n"


class ResponsesKind(OpenAIKind):
    """OpenAI's other API."""

    example = {"api": "responses"}


class ServerKind(OpenAIKind):
    """Another's server that speaks OpenAI's API, with what is its own in its replies."""

    def __init__(self, answered: Json, truncated: Json, error: Json, listed: Json) -> None:
        self._samples = SampleReplies(
            answered=SampleReply(to_json(answered)),
            truncated=SampleReply(to_json(truncated)),
            refused=None,
            error=to_json(error),
            ready=to_json({"object": "list", "data": [{"id": "m", "object": "model", **listed}]}),
        )

    def samples(self, profile: OpenAIProfile) -> SampleReplies:
        return self._samples


def _replied(content: Any, finish: str, message: Json, choice: Json, **more: Json) -> Json:
    said = {"role": "assistant", "content": content, "tool_calls": None, **message}
    given = {"index": 0, "message": said, "finish_reason": finish, **choice}
    usage = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [given],
        **more,
        "usage": {**usage, **more.get("usage", {})},
    }


_THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "so"}]}
MISTRAL = ServerKind(
    _replied([_THOUGHT, {"type": "text", "text": "{}"}], "stop", {"prefix": False}, {}),
    _replied("{", "model_length", {"prefix": False}, {}),
    {"object": "error", "message": "no", "type": "invalid_request_error", "code": "3051"},
    {"owned_by": "mistralai", "capabilities": {"completion_chat": True}},
)
_GROQ: dict[str, Json] = {"usage": {"queue_time": 0.1}, "x_groq": {"id": "req_1"}}
GROQ = ServerKind(
    _replied("{}", "stop", {"reasoning": "so"}, {"logprobs": None}, **_GROQ),
    _replied("{", "length", {}, {"logprobs": None}, **_GROQ),
    {"error": {"message": "no", "type": "invalid_request_error", "code": "string_too_long"}},
    {"owned_by": "x", "active": True, "context_window": 131_072},
)
_VLLM: Json = {"logprobs": None, "stop_reason": None, "token_ids": None}
VLLM = ServerKind(
    _replied("{}", "stop", {"reasoning_content": "so", "refusal": None}, _VLLM),
    _replied("{", "length", {"reasoning_content": None, "refusal": None}, _VLLM),
    {"error": {"message": "no", "type": "BadRequestError", "param": None, "code": 400}},
    {"owned_by": "vllm", "root": "m", "max_model_len": 8192, "permission": []},
)


def kinds() -> dict[str, tuple[str, Kind]]:
    """A column each: the provider's name in settings, and its object."""
    shipped = {name: (name, kind) for name, kind in SHIPPED.items()}
    return {
        "openai": shipped.pop("openai"),
        "responses": ("openai", ResponsesKind()),
        **shipped,
        "Mistral, by `base_url`": ("openai", MISTRAL),
        "Groq, by `base_url`": ("openai", GROQ),
        "vLLM, by `base_url`": ("openai", VLLM),
    }


def table() -> str:
    """What is demanded in each check, and a row for each provider."""
    demanded = [(name, (tried.__doc__ or "").strip(". ")) for name, tried in CHECKS.items()]
    demanded.append(("secrets", "Nothing that it logs or prints holds the key"))
    rows = [
        [title, *(one.fault or "holds" for one in checked_in_time(name, kind))]
        for title, (name, kind) in kinds().items()
    ]
    head = ["provider", *(name for name, _ in demanded)]
    return f"{_written(['check', 'what is demanded'], demanded)}\n{_written(head, rows)}"


def _written(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page[: page.index(BEGIN)] + BEGIN + table(), encoding="utf-8")
