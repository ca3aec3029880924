"""The headers of the makers' SDKs in every request: key, versions, client name.

Each SDK is used in the same way, by what it documents: its client gets the key, the base URL and a
transport that sends nothing, and is asked for the list of models. The headers that it wrote are
those of all requests.
"""

# An SDK takes up to two seconds and 30 MiB to load, so that those in use alone are.
# ruff: noqa: PLC0415

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import httpx2

from services.worker.adapters.providers.apis.api import Api
from services.worker.adapters.providers.apis.preflight import key_to_send

if TYPE_CHECKING:
    import httpx

# These are of one exchange and its client, which is not the SDK's.
_OF_ONE_EXCHANGE = {
    *("accept-encoding", "connection", "content-length", "host"),
    *("x-stainless-read-timeout", "x-stainless-timeout"),
}
_NO_MODELS: dict[str, list[object]] = {"data": [], "models": []}  # as each of them reads it


def headers_of(api: Api) -> Mapping[str, str]:
    """The headers of all requests of a profile."""
    recorder = _Recorder()
    _ASK[api.name](key_to_send(api.connection.api_key), api.base_url, recorder)
    written = recorder.headers.items()
    return {name: text for name, text in written if name not in _OF_ONE_EXCHANGE}


class _Recorder:
    """Answers requests in place of a server, and keeps their headers."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    def client(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self._answer))

    def async_client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))

    def older_transport(self) -> "httpx.MockTransport":
        """The same for the SDK that is built on httpx and not on its fork."""
        import httpx

        def answer(request: httpx.Request) -> httpx.Response:
            self.headers.update(request.headers)
            return httpx.Response(200, json=_NO_MODELS)

        return httpx.MockTransport(answer)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.headers.update(request.headers)
        return httpx2.Response(200, json=_NO_MODELS)


def _openai(api_key: str, base_url: str, recorder: _Recorder) -> None:
    import openai

    with openai.OpenAI(api_key=api_key, base_url=base_url, http_client=recorder.client()) as client:
        # The SDK takes these from the environment and would tell any server.
        client.organization = client.project = None
        client._custom_headers = {}  # noqa: SLF001 - no other way; a test holds it
        client.models.list()


def _anthropic(api_key: str, base_url: str, recorder: _Recorder) -> None:
    import anthropic

    with anthropic.Anthropic(
        api_key=api_key, base_url=base_url, http_client=recorder.client()
    ) as client:
        client._custom_headers = {}  # noqa: SLF001 - as above
        client.models.list()


def _gemini(api_key: str, base_url: str, recorder: _Recorder) -> None:
    from google import genai
    from google.genai import types

    options = types.HttpOptions(
        base_url=base_url,
        api_version="v1",  # else an environment variable may choose it
        httpx_client=recorder.client(),
        httpx_async_client=recorder.async_client(),  # unused; else it makes one with a trust store
    )
    # Without `vertexai` an environment variable may choose another product.
    with genai.Client(vertexai=False, api_key=api_key, http_options=options) as client:
        client.models.list()


def _ollama(api_key: str, base_url: str, recorder: _Recorder) -> None:
    import ollama

    # Without a key in the headers the SDK would tell any server what it finds in the environment.
    headers = {"Authorization": f"Bearer {api_key}"}
    with ollama.Client(
        host=base_url, headers=headers, transport=recorder.older_transport()
    ) as client:
        client.list()


_ASK: Mapping[str, Callable[[str, str, _Recorder], None]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
}
