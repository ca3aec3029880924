"""Anthropic's Messages API, and every server that speaks it: pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from services.worker.adapters.providers.apis import anthropic_replies, preflight
from services.worker.adapters.providers.apis.api import HttpRequest, Preflight, Question
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.turns import Turn
from services.worker.ports import NotReady, Ready

if TYPE_CHECKING:  # the SDK's types say what a body may hold; the SDK itself is not loaded
    from anthropic.types import CacheControlEphemeralParam, MessageParam
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming

ANTHROPIC_BASE_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2026-10-21"  # of the API, as its SDK names it
MODELS_LISTED_MAX = 1000  # the largest page there is
# By default for five minutes. A token that is written to the cache costs a quarter more than one
# that is not; one that is read from it, a tenth.
CACHE: "CacheControlEphemeralParam" = {"type": "ephemeral"}
CACHE_WRITE_FACTOR = 1.25
LISTING = HttpRequest("GET", f"/v1/models?limit={MODELS_LISTED_MAX}")


@dataclass(frozen=True, slots=True)
class AnthropicApi:
    """See Api; with `prompt_cache` the provider keeps each prompt for those that begin with it."""

    connection: Connection
    prompt_cache: bool = False
    name: ClassVar[str] = "anthropic"
    read = staticmethod(anthropic_replies.of_answer)
    read_error = staticmethod(anthropic_replies.of_error)

    @property
    def base_url(self) -> str:
        return self.connection.url(ANTHROPIC_BASE_URL)

    @property
    def headers(self) -> Mapping[str, str]:
        key = self.connection.key_header("authorization", "Bearer ")
        return {"anthropic-version": ANTHROPIC_VERSION, **key}

    def request(self, prompt: Prompt) -> HttpRequest:
        """One POST to `/v1/messages`."""
        body: MessageCreateParamsNonStreaming = {
            "model": self.connection.model,
            "system": prompt.system,
            "messages": [_message(turn) for turn in prompt.turns],
            "max_tokens": prompt.max_output_tokens,
        }
        if (schema := prompt.wire.schema) is not None:  # first, as what prompts have in common
            body = {
                "output_config": {"format": {"type": "json_schema", "schema": {**schema}}},
                **body,
            }
        if self.prompt_cache:
            body["cache_control"] = CACHE
        sampling = {"temperature": self.connection.temperature}  # which the SDK's type lacks
        given = {name: value for name, value in sampling.items() if value is not None}
        return HttpRequest("POST", "/v1/messages", {**body, **given})

    def preflight(self) -> Preflight:
        """Asks what the model can do: it costs nothing and needs the key."""
        problem = yield from self._problem()
        return problem or Ready()

    def _problem(self) -> Question:
        at_anthropic = self.base_url == ANTHROPIC_BASE_URL
        if problem := preflight.of_key(self.connection.api_key, needed=at_anthropic):
            return NotReady(problem)
        model = HttpRequest("GET", "/v1/models/" + quote(self.connection.model, safe=""))
        return (
            yield from preflight.of_one_model(self, model, LISTING, self._judged, self._unknown)
        )

    def _judged(self, model: Any) -> str | None:
        name, needs_schemas = self.connection.model, self.connection.native
        match model:
            case {"capabilities": {"structured_outputs": {"supported": False}}} if needs_schemas:
                return preflight.of_capability(name)
            case {"lifecycle": "retired"}:
                return f"the model {name!r} is retired: set `model` to a newer one"
            case {**_unknown}:
                return None
            case _:
                return f"{self.base_url} is no such API: correct `base_url`; it ends before /v1"

    def _unknown(self, listing: bytes) -> str | None:
        known = preflight.models_in(listing)
        if not known or self.connection.model in known:
            return None
        return preflight.of_model(self.connection.model, known, self.base_url)


def _message(turn: Turn) -> "MessageParam":
    if turn.role == "user":
        return {"role": "user", "content": turn.text}
    return {"role": "assistant", "content": turn.text}
