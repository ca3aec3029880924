"""OpenAI's Chat Completions and Responses, and every server that speaks them: pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias
from urllib.parse import quote

from services.worker.adapters.providers.apis import openai_replies, openai_responses, preflight
from services.worker.adapters.providers.apis.api import (
    HttpRequest,
    HttpResponse,
    Preflight,
    Question,
)
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Reply
from services.worker.core.attempt.turn import Turn
from services.worker.core.schema.resolved import WireSchema
from services.worker.ports.provider import NotReady, Ready

if TYPE_CHECKING:  # the SDK's types say what a body may hold; the SDK itself is not loaded
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
    from openai.types.responses.response_text_config_param import ResponseTextConfigParam
    from openai.types.shared.reasoning_effort import ReasoningEffort
    from openai.types.shared_params.response_format_json_schema import JSONSchema

OPENAI_BASE_URL = "https://api.openai.com/v1"
SCHEMA_NAME_CHARS_MAX = 64
LISTING = HttpRequest("GET", "/models")
# OpenAI's models from before structured output; its listing says nothing of what a model can do.
WITHOUT_SCHEMAS = re.compile(
    r"(?:gpt-3\.5|gpt-4(?:-|$)|gpt-4o-2024-05-13|chatgpt-4o|o1-mini|o1-preview)"
)
ServiceTier: TypeAlias = Literal["auto", "default", "flex", "priority"]
OutputLimitField: TypeAlias = Literal["max_completion_tokens", "max_tokens"]


@dataclass(frozen=True, slots=True)
class OpenAIApi:
    """See Api. A vendor that speaks OpenAI's API is a subclass with a `name` and a `home`.

    OpenAI's newer models refuse `max_tokens`, and many compatible servers ignore its successor and
    would write without limit. So `output_limit_field` None means `max_completion_tokens` at home
    alone: where that guess is wrong, calls are refused and not boundless.
    """

    connection: Connection
    output_limit_field: OutputLimitField | None = None
    api: Literal["chat", "responses"] = "chat"
    service_tier: ServiceTier | None = None
    reasoning_effort: "ReasoningEffort" = None
    verbosity: Literal["low", "medium", "high"] | None = None
    prompt_cache_key: str | None = None
    name: ClassVar[str] = "openai"
    home: ClassVar[str] = OPENAI_BASE_URL

    @property
    def base_url(self) -> str:
        return self.connection.url(self.home)

    @property
    def headers(self) -> Mapping[str, str]:
        return self.connection.key_header("authorization", "Bearer ")

    def request(self, prompt: Prompt) -> HttpRequest:
        """One POST to `/chat/completions` or `/responses`."""
        if self.api == "responses":
            return HttpRequest("POST", "/responses", self._responses_body(prompt))
        return HttpRequest("POST", "/chat/completions", self._chat_body(prompt))

    def parse_response(
        self, status: int, headers: Mapping[str, str], body: bytes, limit: int
    ) -> Reply:
        if self.api == "responses":
            return openai_responses.parse_response(status, headers, body, limit)
        return openai_replies.parse_response(status, headers, body, limit)

    def parse_error(
        self, status: int, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Reply:
        return openai_replies.parse_error(status, headers, body, now)

    def preflight(self) -> Preflight:
        """Asks for the list of models: it costs nothing and needs the key."""
        if fault := self._problem():
            return NotReady(fault)
        listing = yield LISTING
        if isinstance(listing, HttpResponse):
            problem = yield from self._listing_problem(listing.body)
            software = preflight.software_in(listing.body)
        else:
            problem, software = preflight.check_listing(listing, self), None
        return problem or Ready(software)

    def _chat_body(self, prompt: Prompt) -> "CompletionCreateParamsNonStreaming":
        body: CompletionCreateParamsNonStreaming = {
            "model": self.connection.model,
            "messages": [
                {"role": "system", "content": prompt.system},
                *map(_message, prompt.turns),
            ],
        }
        if (schema := prompt.wire.schema) is not None:  # first, as what prompts have in common
            form: JSONSchema = {"name": _name(prompt.wire), "schema": {**schema}, "strict": True}
            body = {"response_format": {"type": "json_schema", "json_schema": form}, **body}
        usual: OutputLimitField = "max_completion_tokens" if self._at_home else "max_tokens"
        body[self.output_limit_field or usual] = prompt.max_output_tokens
        if self.connection.temperature is not None:
            body["temperature"] = self.connection.temperature
        if self.reasoning_effort is not None:
            body["reasoning_effort"] = self.reasoning_effort
        if self.verbosity is not None:
            body["verbosity"] = self.verbosity
        if self.service_tier is not None:
            body["service_tier"] = self.service_tier
        if self.prompt_cache_key is not None:
            body["prompt_cache_key"] = self.prompt_cache_key
        return body

    def _responses_body(self, prompt: Prompt) -> "ResponseCreateParamsNonStreaming":
        body: ResponseCreateParamsNonStreaming = {
            "model": self.connection.model,
            "store": False,  # else OpenAI keeps prompt and answer for later calls
        }
        text: ResponseTextConfigParam = {}
        if (schema := prompt.wire.schema) is not None:
            text["format"] = {
                "type": "json_schema",
                "name": _name(prompt.wire),
                "schema": {**schema},
                "strict": True,
            }
        if self.verbosity is not None:
            text["verbosity"] = self.verbosity
        if text:
            body["text"] = text
        body["instructions"] = prompt.system
        body["input"] = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        body["max_output_tokens"] = prompt.max_output_tokens
        if self.connection.temperature is not None:
            body["temperature"] = self.connection.temperature
        if self.reasoning_effort is not None:
            body["reasoning"] = {"effort": self.reasoning_effort}
        if self.service_tier is not None:
            body["service_tier"] = self.service_tier
        if self.prompt_cache_key is not None:
            body["prompt_cache_key"] = self.prompt_cache_key
        return body

    @property
    def _at_home(self) -> bool:
        return self.base_url == self.home

    def _problem(self) -> str | None:
        connection = self.connection
        if problem := preflight.check_key(connection.api_key, needed=self._at_home):
            return problem
        if connection.native and self._at_home and WITHOUT_SCHEMAS.match(connection.model):
            return preflight.check_capability(connection.model)
        return None

    def _listing_problem(self, listing: bytes) -> Question:
        model = self.connection.model
        known = preflight.models_in(listing)
        if known is None:
            return NotReady(
                f"{self.base_url} does not serve this API: correct `base_url`; most end in /v1"
            )
        if not (known and self.connection.check_model) or model in known:
            return None
        # Short names work that are not listed.
        found = yield HttpRequest("GET", "/models/" + quote(model, safe=":="))
        if isinstance(found, HttpResponse):
            return None
        return NotReady(preflight.check_model(model, known, self.base_url))


def _message(turn: Turn) -> "ChatCompletionMessageParam":
    if turn.role == "user":
        return {"role": "user", "content": turn.text}
    return {"role": "assistant", "content": turn.text}


def _name(wire: WireSchema) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", wire.name)[:SCHEMA_NAME_CHARS_MAX]
