"""Providers that echo the key: nothing that enters a worker has it, by no API."""

import dataclasses
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from answerbus.limits import ANSWER_BYTES_MAX
from answerbus.masking import MASKED, Mask
from answerbus.registry import Registry
from answerbus.request import TextRef
from services.settings.profiles import Profile
from services.settings.secret_file import SecretFile
from services.settings.secrets import LiveMask
from services.worker.adapters import backends
from services.worker.adapters.costly_work.child_process import ChildProcess
from services.worker.adapters.providers.masked import MaskedProvider, masked
from services.worker.core.attempt.check import TooLarge, check
from services.worker.core.attempt.reply import (
    Answered,
    CallFacts,
    NoAnswer,
    Refused,
    Rejected,
    Reply,
    Throttled,
    TimedOut,
    Truncated,
    Unavailable,
)
from services.worker.core.budget.audit import FACT_BYTES_MAX
from services.worker.core.schema.resolve import resolve
from services.worker.core.schema.resolved import ResolvedSchema, WireSchema
from services.worker.dialects.dispatch import compile_for
from services.worker.ports.costly_work import EndedAtLimit, InPlace, P, T, WorkLimits
from services.worker.ports.provider import Unhealthy
from tests.cpu_time import cpu_time
from tests.providers.apis import APIS
from tests.providers.calls import PROMPT, Api, StoppedClock
from tests.providers.misbehaving import Script, answer, misbehaving
from tests.unit.worker.lane.world import FakeProvider

KEY = "sk-live-4711-of-this-profile"
OTHER = "sk-live-0815-of-another-one"
LONG_CHARS = ANSWER_BYTES_MAX - 100
PROVIDERS = {"openai-responses": "openai"}


def texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, inner in value.items():
                yield from (*texts(name), *texts(inner))
        case list():
            for inner in value:
                yield from texts(inner)
        case _:
            pass


def echoing(api: Api, text: str) -> dict[str, Any]:
    """A good answer, with the key in every text that is read of it."""
    body: dict[str, Any] = json.loads(json.dumps(api.good).replace('"{}"', json.dumps(f'"{text}"')))
    for name in ("id", "model", "modelVersion", "responseId"):
        if name in body:
            body[name] = text
    return body


def errors(text: str) -> list[tuple[int, dict[str, Any]]]:
    named = {"message": text, "type": text, "code": text, "status": text}
    return [
        (400, {"error": named}),
        (400, {"error": text}),
        (422, {"type": "error", "error": named}),
    ]


async def reply_of(api: Api, script: Script, monkeypatch: pytest.MonkeyPatch) -> Reply:
    """As a worker gets it that was set up by settings."""
    monkeypatch.setenv("THIS_KEY", KEY)
    monkeypatch.setenv("OTHER_KEY", OTHER)
    async with misbehaving(script) as server:
        table = {
            "provider": PROVIDERS.get(api.name, api.name),
            "model": "m",
            "base_url": api.base(server.base_url),
            "api_key_env": "THIS_KEY",
            **api.options,
        }
        adapter = TypeAdapter[Profile](Profile)
        profiles = {"mine": adapter.validate_python(table)}
        profiles["other"] = adapter.validate_python({**table, "api_key_env": "OTHER_KEY"})
        built = backends.build(profiles, StoppedClock())
        try:
            return await built["mine"].provider.ask(PROMPT, timeout_s=5)
        finally:
            for backend in built.values():
                await backend.provider.close()


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("message", [KEY, OTHER, f"x{KEY}x"])
async def test_what_an_answer_echoes_is_masked(
    api: Api, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers: dict[str, str | bytes] = dict.fromkeys(("x-request-id", "request-id"), message)
    reply = await reply_of(api, answer(echoing(api, message), headers=headers), monkeypatch)

    assert isinstance(reply, Answered)
    assert reply.facts.model == message.replace(KEY, MASKED).replace(OTHER, MASKED)
    assert MASKED in reply.content
    reported = list(texts(dataclasses.asdict(reply)))
    assert not any(KEY in text or OTHER in text for text in reported), reported


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@pytest.mark.parametrize("number", range(len(errors(""))))
async def test_what_an_error_echoes_is_masked(
    api: Api, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, body = errors(KEY)[number]
    reply = await reply_of(api, answer(body, status=status), monkeypatch)

    assert KEY not in repr(reply)


@pytest.mark.parametrize(
    "reply",
    [
        Answered(f'{{"a": "{KEY}"}}', CallFacts(KEY, KEY, KEY)),
        Refused(f"not with {KEY}", CallFacts(KEY, KEY, KEY), KEY),
        Truncated(7, CallFacts(KEY, KEY, KEY)),
        NoAnswer(200, CallFacts(KEY, KEY, KEY)),
        Unavailable(200, ran=True, facts=CallFacts(KEY, KEY, KEY)),
        Rejected("request", 400, KEY),
    ],
)
def test_every_text_of_a_reply_is_masked(reply: Reply) -> None:
    found = masked(reply, Mask([KEY]))

    assert type(found) is type(reply)
    assert KEY not in repr(found)
    # As many texts as there were: none is lost, and a new field cannot be forgotten.
    assert repr(found) == repr(reply).replace(KEY, MASKED)


@pytest.mark.parametrize("unit", ["x", "é", "\ud800", f"{KEY} %2525{KEY.encode().hex()}"])
def test_of_an_answer_that_is_too_large_the_size_alone_is_kept(unit: str) -> None:
    """For each answer, since a server decides how large it is and how slow to read."""
    content = unit * (8 * 1024 * 1024 // len(unit))
    with cpu_time() as cpu:
        found = masked(Answered(content, CallFacts()), Mask([KEY]))

    assert cpu.is_below(0.5)
    assert isinstance(found, Answered)
    assert found.content.isspace()
    size = len(content.encode(errors="surrogatepass"))
    asked = resolve(TextRef(), Registry([]))
    assert isinstance(asked, ResolvedSchema)
    wire = compile_for("prompted", asked)
    assert isinstance(wire, WireSchema)
    assert check(found.content, asked, wire) == TooLarge(size)


async def test_a_long_answer_is_masked_in_the_child_process(tmp_path: Path) -> None:
    """With the secrets that files have by now."""
    key_file = tmp_path / "key"
    key_file.write_text("sk-before-it-was-changed")
    mask = LiveMask([], [SecretFile(key_file)])
    replaced = tmp_path / "fresh"
    replaced.write_text(KEY)
    replaced.rename(key_file)
    quoted = Answered(f"{KEY} {'x' * LONG_CHARS}", CallFacts(KEY))
    provider = FakeProvider(lambda _request, _attempt: (0.0, quoted))
    for limits in (WorkLimits(), WorkLimits(wall_s=0.0)):  # done, and ended at its limit
        child = ChildProcess(limits)
        try:
            reply = await MaskedProvider(provider, mask, child).ask(PROMPT, timeout_s=1)
        finally:
            await child.close()

        assert isinstance(reply, Answered)
        is_done = limits.wall_s > 0
        assert reply.content == (quoted.content.replace(KEY, MASKED) if is_done else MASKED)
        assert KEY not in repr(reply)


async def test_long_answers_take_turns_by_workflow() -> None:
    owners: list[str] = []

    class Noting(InPlace):
        async def run(
            self, owner: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
        ) -> T | EndedAtLimit:
            owners.append(owner)
            return work(*args, **kwargs)

    provider = FakeProvider(lambda _request, _attempt: (0.0, Answered("x" * 10_000, CallFacts())))
    await MaskedProvider(provider, LiveMask([], []), Noting()).ask(PROMPT, timeout_s=1)

    assert owners == [PROMPT.workflow_id]


def test_an_answer_of_the_largest_size_is_kept() -> None:
    content = "x" * ANSWER_BYTES_MAX
    assert masked(Answered(content, CallFacts()), Mask([KEY])) == Answered(content, CallFacts())


async def test_what_is_logged_at_start_is_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A password in `base_url` too."""
    monkeypatch.setenv("THIS_KEY", KEY)
    address = "http://user:pass-word-4711@127.0.0.1:1/v1"
    table = {"provider": "openai", "model": "m", "base_url": address, "api_key_env": "THIS_KEY"}
    profile = TypeAdapter[Profile](Profile).validate_python(table)
    backend = backends.build({"mine": profile}, StoppedClock())["mine"]

    found = await backend.provider.preflight()
    await backend.provider.close()

    assert isinstance(found, Unhealthy)
    assert "http://…@127.0.0.1:1/v1" in found.why


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_times_that_no_event_can_carry_are_left_out(seconds: float) -> None:
    """A plug-in may take them from its server as they are."""
    assert masked(Throttled(seconds), Mask([])) == Throttled(None)
    assert masked(TimedOut(seconds), Mask([])) == Unavailable(None, ran=True)
    assert masked(Truncated(-1, CallFacts()), Mask([])) == Truncated(0, CallFacts())


def test_names_that_no_event_can_carry_are_clipped() -> None:
    name = "\ud800" * 1_000
    answered = masked(Answered("", CallFacts(name, name, name, service_tier=name)), Mask([]))
    rejected = masked(Rejected("request", 400, name), Mask([]))

    assert isinstance(answered, Answered)
    assert isinstance(rejected, Rejected)
    facts = answered.facts
    for text in (facts.model, facts.request_id, facts.stop_reason, facts.service_tier):
        assert len((text or "").encode()) == FACT_BYTES_MAX
    assert len((rejected.code or "").encode()) == FACT_BYTES_MAX
