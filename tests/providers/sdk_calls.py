"""The same call by the maker's own SDK, as its documentation says it, for comparison with ours."""

from collections.abc import Callable, Mapping

import anthropic
import ollama
import openai
from google import genai
from google.genai import types

from tests.providers.calls import PROMPT, SCHEMA, SECRET

LIMIT_S = 5.0
SYSTEM = PROMPT.system
QUESTION, ANSWER = (turn.text for turn in PROMPT.turns)


def openai_at(url: str) -> openai.OpenAI:
    return openai.OpenAI(api_key=SECRET, base_url=url, max_retries=0, timeout=LIMIT_S)


def anthropic_at(url: str) -> anthropic.Anthropic:
    return anthropic.Anthropic(api_key=SECRET, base_url=url, max_retries=0, timeout=LIMIT_S)


def chat(url: str) -> str | None:
    with openai_at(url) as client:
        response = client.chat.completions.create(
            model="m",
            messages=[
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": ANSWER},
            ],
            max_tokens=77,
            temperature=0.5,
            service_tier="flex",
            reasoning_effort="low",
            verbosity="low",
            prompt_cache_key="handbook",
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "plan_v1", "schema": SCHEMA, "strict": True},
            },
        )
    return response.choices[0].message.content


def responses(url: str) -> str:
    with openai_at(url) as client:
        response = client.responses.create(
            model="m",
            instructions=SYSTEM,
            input=[
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": ANSWER},
            ],
            max_output_tokens=77,
            temperature=0.5,
            store=False,
            service_tier="flex",
            reasoning={"effort": "low"},
            prompt_cache_key="handbook",
            text={
                "verbosity": "low",
                "format": {
                    "type": "json_schema",
                    "name": "plan_v1",
                    "schema": SCHEMA,
                    "strict": True,
                },
            },
        )
    return response.output_text


def messages(url: str) -> str:
    with anthropic_at(url) as client:
        response = client.messages.create(
            model="m",
            max_tokens=77,
            system=SYSTEM,
            messages=[
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": ANSWER},
            ],
            output_config={
                "format": {"type": "json_schema", "schema": SCHEMA},
                "effort": "low",
            },
            cache_control={"type": "ephemeral", "ttl": "1h"},
            service_tier="standard_only",
            thinking={"type": "enabled", "budget_tokens": 1_024},
            extra_body={"temperature": 0.5},
        )
    return "".join(block.text for block in response.content if block.type == "text")


def generate_content(url: str) -> str | None:
    options = types.HttpOptions(base_url=url, api_version="v1")
    with genai.Client(vertexai=False, api_key=SECRET, http_options=options) as client:
        response = client.models.generate_content(
            model="m",
            contents=[
                types.Content(role="user", parts=[types.Part(text=QUESTION)]),
                types.Content(role="model", parts=[types.Part(text=ANSWER)]),
            ],
            config=types.GenerateContentConfig(
                system_instruction=SYSTEM,
                max_output_tokens=77,
                temperature=0.5,
                thinking_config=types.ThinkingConfig(thinking_budget=9),
                service_tier=types.ServiceTier.FLEX,
                response_mime_type="application/json",
                response_json_schema=SCHEMA,
                automatic_continuation=False,
            ),
        )
    return response.text


def ollama_chat(url: str) -> str | None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    with ollama.Client(host=url, headers=headers, timeout=LIMIT_S) as client:
        response = client.chat(
            model="m",
            messages=[
                {"role": "system", "content": SYSTEM},
                {"role": "user", "content": QUESTION},
                {"role": "assistant", "content": ANSWER},
            ],
            format=SCHEMA,
            options={"num_predict": 77, "temperature": 0.5, "num_ctx": 8192},
            think=False,
        )
    content: str | None = response.message.content
    return content


CALLS: Mapping[str, Callable[[str], str | None]] = {
    "openai": chat,
    "openai-responses": responses,
    "anthropic": messages,
    "gemini": generate_content,
    "ollama": ollama_chat,
}
