"""Azure OpenAI's v1 API: OpenAI's, with deployments for models and keys in another header; pure."""

from collections.abc import Mapping
from typing import ClassVar

from services.worker.adapters.providers.apis import preflight
from services.worker.adapters.providers.apis.api import HttpRequest, HttpResponse, Preflight
from services.worker.adapters.providers.apis.openai import LISTING, OpenAIApi
from services.worker.core.attempt.reply import Rejected
from services.worker.ports.provider import NotReady, Ready

_CALLS = {"chat": ("/chat/completions", "messages"), "responses": ("/responses", "input")}


class AzureApi(OpenAIApi):
    """See OpenAIApi. `model` is the name of a deployment."""

    __slots__ = ()
    name: ClassVar[str] = "azure"
    home: ClassVar[str] = ""  # each resource has its own

    @property
    def headers(self) -> Mapping[str, str]:
        """Tokens and keys have different headers."""
        if self.connection.credential:
            return self.connection.key_header("authorization", "Bearer ")
        return self.connection.key_header("api-key")

    def preflight(self) -> Preflight:
        """Asks for the list of models, and then a question that no model is asked.

        The list has the models that could be deployed. An unknown deployment is found by a call
        without a message: it is refused before a model reads it, and costs nothing.
        """
        if fault := preflight.check_key(self.connection.api_key, needed=False):
            return NotReady(fault)
        listing = yield LISTING
        if not isinstance(listing, HttpResponse):
            return preflight.check_listing(listing, self) or Ready()
        if not self.connection.check_model:
            return Ready()
        model = self.connection.model
        path, turns = _CALLS[self.api]
        found = yield HttpRequest("POST", path, {"model": model, turns: []})
        if isinstance(found, Rejected) and found.status == 404:
            return NotReady(
                f"{self.base_url} has no deployment {model!r}: set `model` to the name of one, "
                "which need not be that of its model"
            )
        return Ready()
