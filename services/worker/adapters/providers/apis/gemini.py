"""The Gemini API, and every server that speaks it: pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from services.worker.adapters.providers.apis import gemini_replies, preflight
from services.worker.adapters.providers.apis.api import HttpRequest, Preflight, Question
from services.worker.adapters.providers.apis.connection import Connection
from services.worker.core.attempt.prompt import Prompt
from services.worker.ports import NotReady, Ready

GEMINI_BASE_URL = "https://generativelanguage.googleapis.com"
MODELS_LISTED_MAX = 1000  # the largest page there is
LISTING = HttpRequest("GET", f"/v1/models?pageSize={MODELS_LISTED_MAX}")
# The API serves these beside its own and knows no JSON mode for them; it says so in a call alone.
WITHOUT_SCHEMAS = re.compile(r"(?:models/)?gemma-[1-3]")
_ROLES = {"user": "user", "assistant": "model"}


@dataclass(frozen=True, slots=True)
class GeminiApi:
    """See Api.

    `thinking_budget` bounds, in tokens, what is thought before the answer; it counts as output.
    """

    connection: Connection
    thinking_budget: int | None = None
    name: ClassVar[str] = "gemini"
    read = staticmethod(gemini_replies.of_answer)
    read_error = staticmethod(gemini_replies.of_error)

    @property
    def base_url(self) -> str:
        return self.connection.url(GEMINI_BASE_URL)

    @property
    def headers(self) -> Mapping[str, str]:
        return self.connection.key_header("x-goog-api-key")

    def request(self, prompt: Prompt) -> HttpRequest:
        """One POST to `models/<model>:generateContent`."""
        config: dict[str, Any] = {}
        if self.connection.temperature is not None:
            config["temperature"] = self.connection.temperature
        if prompt.wire.schema is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = prompt.wire.schema
        if self.thinking_budget is not None:
            config["thinkingConfig"] = {"thinking_budget": self.thinking_budget}
        contents = [_content(_ROLES[turn.role], turn.text) for turn in prompt.turns]
        body = {
            "generationConfig": {**config, "maxOutputTokens": prompt.max_output_tokens},
            "systemInstruction": _content("user", prompt.system),
            "contents": contents,
        }
        return HttpRequest("POST", f"{self._model_path}:generateContent", body)

    def preflight(self) -> Preflight:
        """Asks what the model can do: it costs nothing and needs the key."""
        problem = yield from self._problem()
        return problem or Ready()

    @property
    def _model_path(self) -> str:
        """Names may say which kind of model they are (`models/`, `tunedModels/`)."""
        name = self.connection.model
        kind = "" if name.startswith(("models/", "tunedModels/")) else "models/"
        return "/v1/" + kind + quote(name, safe="/:")

    def _problem(self) -> Question:
        connection = self.connection
        at_google = self.base_url == GEMINI_BASE_URL
        if problem := preflight.of_key(connection.api_key, needed=at_google):
            return NotReady(problem)
        if connection.native and WITHOUT_SCHEMAS.match(connection.model):
            return NotReady(preflight.of_capability(connection.model))
        model = HttpRequest("GET", self._model_path)
        return (
            yield from preflight.of_one_model(self, model, LISTING, self._judged, self._unknown)
        )

    def _judged(self, model: Any) -> str | None:
        match model:
            case {"supportedGenerationMethods": [*methods]} if "generateContent" not in methods:
                name = self.connection.model
                return f"the model {name!r} writes no answers: set `model` to one that does"
            case {**_unknown}:
                return None
            case _:
                return f"{self.base_url} is no such API: correct `base_url`; it ends before /v1"

    def _unknown(self, listing: bytes) -> str | None:
        listed = preflight.models_in(listing, under="models", name="name") or frozenset()
        known = {name.removeprefix("models/") for name in listed}
        if not known or self.connection.model.removeprefix("models/") in known:
            return None
        return preflight.of_model(self.connection.model, known, self.base_url)


def _content(role: str, text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}], "role": role}
