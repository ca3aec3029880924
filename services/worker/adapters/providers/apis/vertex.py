"""Google Vertex: Gemini, and Anthropic's models, at a project's place in a region; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.anthropic import AnthropicApi
from services.worker.adapters.providers.apis.api import (
    Api,
    HttpRequest,
    HttpResponse,
    Preflight,
)
from services.worker.adapters.providers.apis.gemini import GeminiApi
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Rejected
from services.worker.ports.provider import NotReady, Ready

# Where tokens are counted for Anthropic's models; elsewhere each model is not found.
COUNTING_REGIONS = {"asia-southeast1", "europe-west1", "us-east5"}
ANTHROPIC_VERSION = "vertex-2023-10-16"  # of the API, which is a member of the body here


@dataclass(frozen=True, slots=True)
class Place:
    """A project, and a region of Vertex, or `global`."""

    project: str
    region: str

    @property
    def address(self) -> str:
        host = "aiplatform.googleapis.com"
        return f"https://{host}" if self.region == "global" else f"https://{self.region}-{host}"

    def path(self, publisher: str, model: str, verb: str) -> str:
        """Of a model of a maker, and what is asked of it."""
        place = f"/v1/projects/{quote(self.project, safe=':')}/locations/{self.region}"
        return f"{place}/publishers/{publisher}/models/{quote(model, safe='@')}:{verb}"


@dataclass(frozen=True, slots=True)
class VertexGeminiApi(GeminiApi):
    """See Api."""

    place: Place = Place("", "global")
    name: ClassVar[str] = "vertex"

    @property
    def base_url(self) -> str:
        return self.connection.url(self.place.address)

    @property
    def headers(self) -> Mapping[str, str]:
        return self.connection.key_header("authorization", "Bearer ")

    def request(self, prompt: Prompt) -> HttpRequest:
        path = self.place.path("google", self.connection.model, "generateContent")
        return HttpRequest("POST", path, GeminiApi.request(self, prompt).body)

    def preflight(self) -> Preflight:
        """Counts the tokens of a word, which costs nothing and needs token, region and model."""
        path = self.place.path("google", self.connection.model, "countTokens")
        word = {"role": "user", "parts": [{"text": "word"}]}
        return _checked(self, self.place, HttpRequest("POST", path, {"contents": [word]}))


@dataclass(frozen=True, slots=True)
class VertexAnthropicApi(AnthropicApi):
    """See Api."""

    place: Place = Place("", "global")
    name: ClassVar[str] = "vertex_anthropic"

    @property
    def base_url(self) -> str:
        return self.connection.url(self.place.address)

    @property
    def headers(self) -> Mapping[str, str]:
        return self.connection.key_header("authorization", "Bearer ")

    def request(self, prompt: Prompt) -> HttpRequest:
        """The model is in the path, and the version in the body."""
        body: dict[str, Any] = {**(AnthropicApi.request(self, prompt).body or {})}
        del body["model"]
        path = self.place.path("anthropic", self.connection.model, "rawPredict")
        return HttpRequest("POST", path, {**body, "anthropic_version": ANTHROPIC_VERSION})

    def preflight(self) -> Preflight:
        """As `VertexGeminiApi.preflight`."""
        path = self.place.path("anthropic", "count-tokens", "rawPredict")
        messages = [{"role": "user", "content": "word"}]
        body = {"model": self.connection.model, "messages": messages}
        counts = self.place.region in COUNTING_REGIONS
        return _checked(self, self.place, HttpRequest("POST", path, body), counts=counts)


def _checked(api: Api, place: Place, question: HttpRequest, *, counts: bool = True) -> Preflight:
    """`counts` is False where tokens are not counted, so that a 404 says nothing of the model."""
    connection = api.connection
    if fault := preflight.check_key(connection.api_key, needed=False):
        return NotReady(fault)
    found = yield question
    if isinstance(found, HttpResponse):
        return Ready()
    is_unknown = isinstance(found, Rejected) and found.status == 404 and counts
    if is_unknown and connection.check_model:
        return NotReady(
            f"the region {place.region} has no model {connection.model!r} for the project "
            f"{place.project}: set `region` to one that has it, or to `global`, or enable the model"
        )
    if isinstance(found, Rejected) and found.status == 403:
        return NotReady(
            f"the project {place.project} refuses the identity of the credential: give it the role "
            "Vertex AI User, and enable the API"
        )
    return preflight.check_listing(found, api) or Ready()
