"""Every adapter with a good answer, for the tests that all of them must pass."""

from dataclasses import replace

import pytest

from answerbus.budget import Usage
from services.worker.adapters.providers.apis.anthropic import AnthropicApi
from services.worker.adapters.providers.apis.azure import AzureApi
from services.worker.adapters.providers.apis.bedrock import BedrockApi
from services.worker.adapters.providers.apis.gemini import GeminiApi
from services.worker.adapters.providers.apis.ollama import OllamaApi
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.adapters.providers.apis.vertex import (
    Place,
    VertexAnthropicApi,
    VertexGeminiApi,
)
from services.worker.core.attempt.reply import Answered, CallFacts
from tests.providers.calls import Api


def reply(stop_reason: str, request_id: str | None = "req_1") -> Answered:
    usage = Usage(input_tokens=12, output_tokens=3)
    return Answered("{}", CallFacts("m-2026", request_id, stop_reason, usage))


OPENAI = Api(
    name="openai",
    spec=OpenAIApi,
    good={
        "id": "chatcmpl-1",
        "model": "m-2026",
        "choices": [{"message": {"content": "{}", "refusal": None}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3},
    },
    good_headers={"x-request-id": "req_1"},
    good_reply=reply("stop"),
    path="/v1/chat/completions",
    options={},
    dialect="openai",
    sdk="openai",
)
RESPONSES = Api(
    name="openai-responses",
    spec=OpenAIApi,
    good={
        "id": "resp_1",
        "model": "m-2026",
        "status": "completed",
        "output": [
            {"type": "reasoning", "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "{}"}]},
        ],
        "usage": {"input_tokens": 12, "output_tokens": 3},
    },
    good_headers={"x-request-id": "req_1"},
    good_reply=reply("completed"),
    path="/v1/responses",
    options={"api": "responses"},
    dialect="openai",
    sdk="openai-responses",
)
ANTHROPIC = Api(
    name="anthropic",
    spec=AnthropicApi,
    good={
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m-2026",
        "content": [{"type": "text", "text": "{}"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 12, "output_tokens": 3},
    },
    good_headers={"request-id": "req_1"},
    good_reply=reply("end_turn"),
    path="/v1/messages",
    options={},
    dialect="anthropic",
    sdk="anthropic",
)
GEMINI = Api(
    name="gemini",
    spec=GeminiApi,
    good={
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": "{}"}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {"promptTokenCount": 12, "candidatesTokenCount": 3},
        "modelVersion": "m-2026",
        "responseId": "req_1",
    },
    good_headers={},
    good_reply=reply("STOP"),
    path="/v1/models/m:generateContent",
    options={},
    dialect="gemini",
    sdk="gemini",
)
OLLAMA = Api(
    name="ollama",
    spec=OllamaApi,
    good={
        "model": "m-2026",
        "message": {"role": "assistant", "content": "{}"},
        "done": True,
        "done_reason": "stop",
        "prompt_eval_count": 12,
        "eval_count": 3,
    },
    good_headers={},
    good_reply=reply("stop", None),
    path="/api/chat",
    options={},
    dialect="ollama",
    sdk="ollama",
)
APIS = [OPENAI, RESPONSES, ANTHROPIC, GEMINI, OLLAMA]
EACH = pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)

PLACE = Place("p", "europe-west4")
# At clouds: they are asked for the same, at other paths and with other headers.
AZURE = replace(OPENAI, name="azure", spec=AzureApi)
VERTEX = replace(
    GEMINI,
    name="vertex",
    spec=VertexGeminiApi,
    path=PLACE.path("google", "m", "generateContent"),
    options={"place": PLACE},
)
VERTEX_ANTHROPIC = replace(
    ANTHROPIC,
    name="vertex_anthropic",
    spec=VertexAnthropicApi,
    path=PLACE.path("anthropic", "m", "rawPredict"),
    options={"place": PLACE},
)
BEDROCK = Api(
    name="bedrock",
    spec=BedrockApi,
    good={
        "output": {"message": {"role": "assistant", "content": [{"text": "{}"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 12, "outputTokens": 3},
    },
    good_headers={"x-amzn-requestid": "req_1"},
    good_reply=replace(reply("end_turn"), facts=replace(reply("end_turn").facts, model=None)),
    path="/model/m/converse",
    options={"region": "eu-central-1"},
    dialect="anthropic",
    sdk="none",
)
WITH_CLOUDS = [*APIS, AZURE, VERTEX, VERTEX_ANTHROPIC, BEDROCK]
