"""What a base URL and a model's name may be like, and what is sent then."""

from typing import Any

import pytest

from tests.providers.apis import ANTHROPIC, EACH, GEMINI, OPENAI
from tests.providers.calls import LIMIT_S, PROMPT, Api
from tests.providers.misbehaving import answer, misbehaving


@EACH
async def test_a_base_url_may_end_in_a_slash_and_have_a_path(api: Api) -> None:
    async with misbehaving(api.whole) as server:
        url = server.base_url.removesuffix("/v1") + "/a%20b/proxy/v1"
        async with api.at(url + "/") as provider:
            reply = await provider.ask(PROMPT, timeout_s=LIMIT_S)

    (seen,) = server.seen
    assert reply == api.good_reply
    assert seen.path.startswith("/a%20b/proxy/")
    assert seen.path.endswith(api.path.removeprefix("/v1"))


MODELS: list[tuple[Api, str, str]] = [
    (OPENAI, "org/m:7b", "/v1/models/org%2Fm:7b"),
    (OPENAI, "m?a=b#c", "/v1/models/m%3Fa=b%23c"),
    (ANTHROPIC, "org/m:7b", "/v1/models/org%2Fm:7b"),
    (GEMINI, "models/m", "/v1/models/m"),
    (GEMINI, "tunedModels/m-1", "/v1/tunedModels/m-1"),
]


@pytest.mark.parametrize(("api", "model", "path"), MODELS)
async def test_a_models_name_is_one_part_of_a_path(api: Api, model: str, path: str) -> None:
    listed: Any = {"data": [{"id": "x"}]}
    async with (
        misbehaving(answer(listed)) as server,
        api.at(server.base_url, model=model) as provider,
    ):
        await provider.preflight()

    assert server.seen[-1].path == path


@EACH
async def test_no_sentence_about_a_profile_shows_the_password_in_its_address(api: Api) -> None:
    """Not even one that is too short to be masked."""
    async with misbehaving(answer({}, 401)) as server:
        for there in (server.base_url, "http://127.0.0.1:1/v1"):
            async with api.at(there.replace("//", "//me:hunter2@")) as provider:
                found = await provider.preflight()

            assert "//…@127.0.0.1:" in str(found)
            assert "hunter2" not in str(found)
