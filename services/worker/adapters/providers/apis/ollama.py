"""The API of Ollama servers: pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

from answerbus.budget import Usage
from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.api import (
    HttpRequest,
    HttpResponse,
    Preflight,
    Question,
)
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.adapters.providers.apis.errors_inside import true_status
from services.worker.adapters.providers.apis.response_fields import (
    json_in,
    name_in,
    parse_status,
    retry_after_s,
    tokens_in,
)
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Rejected,
    Reply,
    Throttled,
    Truncated,
    Unavailable,
)
from services.worker.ports.provider import NotReady, Ready

OLLAMA_BASE_URL = "http://localhost:11434"
SCHEMAS_SINCE = (0, 5)  # before, `format` could only be "json"
LISTING = HttpRequest("GET", "/api/tags")
VERSION = HttpRequest("GET", "/api/version")
_FINISHED = ("stop", None)  # older servers say no reason
# Its errors have no codes. Where one begins so, no request of the profile would fare better; in
# what comes later a schema or a prompt may be quoted.
_PROFILE_WORDS = {
    re.compile(r"(?:model )?\S+ does not support \w"): "unsupported_by_model",
    re.compile("model requires more system memory"): "out_of_memory",
    # of Ollama's cloud
    re.compile(r"you (?:\(\S+\) )?have reached your weekly usage limit"): "usage_limit_reached",
}
_QUEUE_IS_FULL = "server busy"


def parse_response(status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
    """Reads a 2xx; `limit` is the output limit in tokens that was asked for."""
    match json_in(body):
        case {"error": {**error}} if (real_status := true_status(error)) is not None:
            return parse_status(real_status, (), retry_after_s(headers, None), ())
        case {"error": str(words)} if (code := _profile_code(words)) is not None:
            return Rejected("profile", status, code)
        case {"message": {**message}, "done": True, **document}:
            pass
        case _:
            return Unavailable(status, ran=True)
    stop = document.get("done_reason")
    facts = CallFacts(
        model=name_in(document.get("model")),
        stop_reason=name_in(stop),
        usage=Usage(
            input_tokens=tokens_in(document.get("prompt_eval_count")),
            output_tokens=tokens_in(document.get("eval_count")),
        ),
    )
    if stop == "length":
        return Truncated(limit, facts)
    content = message.get("content")
    is_call = not content and message.get("tool_calls")
    if stop not in _FINISHED or is_call or not isinstance(content, str):
        return NoAnswer(status, facts)
    return Answered(content, facts)


def parse_error(
    status: int, headers: Mapping[str, str], body: bytes, now: datetime | None
) -> Reply:
    """Reads any other status; `now` is what a date in `Retry-After` counts from at need."""
    words, wait_s = _words(body), retry_after_s(headers, now)
    code = _profile_code(words)
    if code is not None:
        return Rejected("profile", status, code)
    if status == 503 and words.startswith(_QUEUE_IS_FULL):
        return Throttled(wait_s)
    return parse_status(status, (), wait_s, ())


def _profile_code(words: str) -> str | None:
    return next((code for begin, code in _PROFILE_WORDS.items() if begin.match(words)), None)


def _words(body: bytes) -> str:
    match json_in(body):
        case {"error": str(words)}:
            return words
        case _:
            return ""


@dataclass(frozen=True, slots=True)
class OllamaApi:
    """See Api.

    `context_tokens` is the window for prompt and answer: a server takes a small one by default, and
    cuts longer prompts without a word. `think` switches the thinking of models that can on or off.
    """

    connection: Connection
    context_tokens: int | None = None
    think: bool | None = None
    name: ClassVar[str] = "ollama"
    parse_response = staticmethod(parse_response)
    parse_error = staticmethod(parse_error)

    @property
    def base_url(self) -> str:
        return self.connection.url(OLLAMA_BASE_URL)

    @property
    def headers(self) -> Mapping[str, str]:
        return self.connection.key_header("authorization", "Bearer ")

    def request(self, prompt: Prompt) -> HttpRequest:
        turns = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        options: dict[str, Any] = {"num_predict": prompt.max_output_tokens}
        if self.connection.temperature is not None:
            options["temperature"] = self.connection.temperature
        if self.context_tokens is not None:
            options["num_ctx"] = self.context_tokens
        body: dict[str, Any] = {"model": self.connection.model, "stream": False, "tools": []}
        if prompt.wire.schema is not None:
            body["format"] = prompt.wire.schema
        if self.think is not None:
            body["think"] = self.think
        body["messages"] = [{"role": "system", "content": prompt.system}, *turns]
        body["options"] = options
        return HttpRequest("POST", "/api/chat", body)

    def preflight(self) -> Preflight:
        """Asks what model and server can do."""
        if fault := preflight.check_key(self.connection.api_key, needed=False):
            return NotReady(fault)
        model = HttpRequest("POST", "/api/show", {"model": self.connection.model})
        problem = yield from preflight.check_one_model(
            self, model, LISTING, self._judged, self._unknown
        )
        problem = problem or (yield from self._version_problem())
        return problem or Ready()

    def _judged(self, model: Mapping[str, Any]) -> str | None:
        match model:
            case {"capabilities": [*can]} if "completion" not in can:
                return preflight.cannot_answer(self.connection.model)
            case _:
                return None

    def _unknown(self, listing: bytes) -> str:
        name = self.connection.model
        known = preflight.models_in(listing, under="models", name="name") or frozenset()
        advice = f"{self.base_url} has no model {name!r}: run `ollama pull {name}` there"
        shown = ", ".join(sorted(known)[: preflight.MODELS_SHOWN_MAX])
        return f"{advice}, or set `model` to {shown}" if shown else advice

    def _version_problem(self) -> Question:
        if not self.connection.native:
            return None
        found = yield VERSION
        body = json_in(found.body) if isinstance(found, HttpResponse) else None
        version = body.get("version") if isinstance(body, dict) else None
        if not isinstance(version, str) or not _is_before(version, SCHEMAS_SINCE):
            return None
        return NotReady(
            f"{self.base_url} is Ollama {version}, which enforces no schemas: update it, "
            'or say `dialect = "prompted"`'
        )


def _is_before(version: str, first: tuple[int, ...]) -> bool:
    """Whether a version is surely older; what cannot be read is not.

    Nor is 0.0.0, which a server says that was built from source.
    """
    parts = version.split("-", maxsplit=1)[0].split(".")[: len(first)]
    if not all(part.isdecimal() for part in parts):
        return False
    numbers = tuple(map(int, parts))
    return any(numbers) and numbers < first
