"""OpenAI's Chat Completions and Responses, and every server that speaks them: pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
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
from services.worker.core.schema.resolved import WireSchema
from services.worker.ports import NotReady, Ready

OPENAI_BASE_URL = "https://api.openai.com/v1"
SCHEMA_NAME_CHARS_MAX = 64
LISTING = HttpRequest("GET", "/models")
# OpenAI's models from before structured output; its listing says nothing of what a model can do.
WITHOUT_SCHEMAS = re.compile(
    r"(?:gpt-3\.5|gpt-4(?:-|$)|gpt-4o-2024-05-13|chatgpt-4o|o1-mini|o1-preview)"
)


@dataclass(frozen=True, slots=True)
class OpenAIApi:
    """See Api.

    OpenAI's newer models refuse `max_tokens`, and many compatible servers ignore its successor and
    would write without limit. So `output_limit_field` None means `max_completion_tokens` at OpenAI
    alone: where that guess is wrong, calls are refused and not boundless.
    """

    connection: Connection
    output_limit_field: Literal["max_completion_tokens", "max_tokens"] | None = None
    api: Literal["chat", "responses"] = "chat"
    name: ClassVar[str] = "openai"
    read_error = staticmethod(openai_replies.of_error)

    @property
    def base_url(self) -> str:
        return self.connection.url(OPENAI_BASE_URL)

    def request(self, prompt: Prompt) -> HttpRequest:
        """One POST to `/chat/completions` or `/responses`."""
        if self.api == "responses":
            path, body = "/responses", self._responses_body(prompt)
        else:
            path, body = "/chat/completions", self._chat_body(prompt)
        if self.connection.temperature is not None:
            body["temperature"] = self.connection.temperature
        return HttpRequest("POST", path, body)

    def read(self, status: int, headers: Mapping[str, str], body: bytes, limit: int) -> Reply:
        read = openai_responses.of_answer if self.api == "responses" else openai_replies.of_answer
        return read(status, headers, body, limit)

    def preflight(self) -> Preflight:
        """Asks for the list of models: it costs nothing and needs the key."""
        if fault := self._problem():
            return NotReady(fault)
        listing = yield LISTING
        if isinstance(listing, HttpResponse):
            problem = yield from self._listing_problem(listing.body)
            software = preflight.software_in(listing.body)
        else:
            problem, software = preflight.of_listing(listing, self.base_url), None
        return problem or Ready(software)

    def _chat_body(self, prompt: Prompt) -> dict[str, Any]:
        turns = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        usual = "max_completion_tokens" if self._at_openai else "max_tokens"
        body: dict[str, Any] = {"model": self.connection.model}
        if prompt.wire.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": _form(prompt.wire)}
        body["messages"] = [{"role": "system", "content": prompt.system}, *turns]
        body[self.output_limit_field or usual] = prompt.max_output_tokens
        return body

    def _responses_body(self, prompt: Prompt) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.connection.model,
            "store": False,  # else OpenAI keeps prompt and answer for later calls
        }
        if prompt.wire.schema is not None:
            body["text"] = {"format": {"type": "json_schema", **_form(prompt.wire)}}
        body["instructions"] = prompt.system
        body["input"] = [{"role": turn.role, "content": turn.text} for turn in prompt.turns]
        body["max_output_tokens"] = prompt.max_output_tokens
        return body

    @property
    def _at_openai(self) -> bool:
        return self.base_url == OPENAI_BASE_URL

    def _problem(self) -> str | None:
        connection = self.connection
        if problem := preflight.of_key(connection.api_key, needed=self._at_openai):
            return problem
        if connection.native and self._at_openai and WITHOUT_SCHEMAS.match(connection.model):
            return preflight.of_capability(connection.model)
        return None

    def _listing_problem(self, listing: bytes) -> Question:
        model = self.connection.model
        known = preflight.models_in(listing)
        if known is None:
            return NotReady(f"{self.base_url} is no such API: correct `base_url`; most end in /v1")
        if not (known and self.connection.check_model) or model in known:
            return None
        # Short names work that are not listed.
        found = yield HttpRequest("GET", "/models/" + quote(model, safe=""))
        if isinstance(found, HttpResponse):
            return None
        return NotReady(preflight.of_model(model, known, self.base_url))


def _form(wire: WireSchema) -> dict[str, Any]:
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", wire.name)[:SCHEMA_NAME_CHARS_MAX]
    return {"name": name, "schema": wire.schema, "strict": True}
