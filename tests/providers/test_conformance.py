"""The conformance kit: ours pass it, and each way to fail it is found, in one sentence."""

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from services import cli
from services.commands.providers import command, running
from services.commands.providers.conformance import CHECKS, SECRET
from services.commands.providers.server import PlayedServer
from services.settings.profiles import OpenAIProfile
from services.settings.settings import SetUpError, load
from services.worker.adapters import backends
from services.worker.adapters.building import connection_of
from services.worker.adapters.providers.apis.api import HttpRequest
from services.worker.adapters.providers.apis.openai import OpenAIApi
from services.worker.adapters.providers.http import HttpProvider
from services.worker.adapters.providers.kinds.openai import OpenAIKind
from services.worker.core.attempt.prompt import Prompt
from services.worker.core.attempt.reply import Answered, CallFacts, Reply, Unavailable
from tests.plugins.installing import write_plugin
from tests.providers.calls import LIMIT_S, PROMPT, StoppedClock
from tests.providers.calls import SECRET as KEY
from tests.providers.conformance_table import BEGIN, PAGE, table
from tests.providers.misbehaving import answer, misbehaving
from tests.providers.openai_calls import GOOD

ROOT = Path(__file__).parents[2]
GROUP = "answerbus.providers"


def test_the_page_shows_what_the_kit_says_of_ours() -> None:
    shown = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2]

    assert shown == table(), "python -m tests.providers.conformance_table"
    assert "holds | holds" in shown


class Odd(OpenAIApi):
    """OpenAI's, but for what a test replaces."""

    __slots__ = ()


def kit_on(**replaced: Any) -> dict[str, str | None]:
    kind = OpenAIKind()
    kind.api_type = type("Odd", (Odd,), replaced)
    return {one.check: one.fault for one in running.checked_in_time("openai", kind, 10.0)}


def never(*_: Any) -> Reply:
    return Unavailable(200, ran=True)


def always(*_: Any) -> Reply:
    return Answered("{}", CallFacts())


def of_random(self: OpenAIApi, _prompt: Prompt) -> HttpRequest:
    return HttpRequest("POST", f"/{time.perf_counter_ns()}", {})


NO_JSON = object()


def of_bytes(self: OpenAIApi, prompt: Prompt) -> HttpRequest:
    body = OpenAIApi.request(self, prompt).body
    return HttpRequest("POST", "/x", {**(body or {}), "odd": NO_JSON})


def raising(*_: Any) -> Reply:
    raise KeyError("x")


def exiting(*_: Any) -> Reply:
    sys.exit(4)


HERE, RAISED_AT = Path(__file__).name, raising.__code__.co_firstlineno + 1
EXITED_AT = exiting.__code__.co_firstlineno + 1


def logging_its_key(self: OpenAIApi, prompt: Prompt) -> HttpRequest:
    print(self.connection.api_key)  # noqa: T201
    return OpenAIApi.request(self, prompt)


def without_end(_self: OpenAIApi) -> Any:
    while True:
        yield HttpRequest("GET", "/models")


@pytest.mark.parametrize(
    ("replaced", "check", "fault"),
    [
        ({"parse_response": never}, "answers", "it reads its own answer as Unavailable"),
        ({"parse_response": always}, "cut answers", "it reads a cut answer as Answered"),
        ({"parse_response": always}, "odd encodings", "it reads nothing as Answered"),
        ({"parse_response": raising}, "usage", f"{HERE}:{RAISED_AT} raises KeyError: 'x'"),
        ({"parse_response": exiting}, "usage", f"{HERE}:{EXITED_AT} raises SystemExit: 4"),
        ({"parse_error": never}, "statuses", "it reads the status 307 as Unavailable"),
        ({"request": of_random}, "request", "the same prompt makes two different requests"),
        ({"request": of_bytes}, "request", "the body of its request is not JSON"),
        ({"headers": {"x-acme": "demo"}}, "request", "no header of its request has the key"),
        (
            {"headers": {"authorization": f"Bearer {SECRET}", "x-acme": "a\r\nx-other: 1"}},
            "request",
            "its headers have characters that no header can carry",
        ),
        ({"request": logging_its_key}, "secrets", "its key is in what it logs or prints"),
        (
            {"preflight": without_end},
            "check at start",
            "its check where all is well says NotReady",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_way_to_fail_is_named(replaced: dict[str, Any], check: str, fault: str) -> None:
    assert kit_on(**replaced)[check] == fault


def test_a_provider_that_hangs_is_left() -> None:
    kind, released, before = OpenAIKind(), threading.Event(), threading.enumerate()

    def hangs(*_: Any) -> Reply:
        released.wait()
        return Unavailable(200, ran=True)

    kind.api_type = type("Odd", (Odd,), {"parse_response": hangs})

    results = running.checked_in_time("openai", kind, 0.5)
    released.set()
    for thread in set(threading.enumerate()) - {*before}:  # nothing of it goes on in other tests
        thread.join(10)

    assert [one.check for one in results] == [*CHECKS, "secrets"]
    assert results[1].fault == "it did not end in 0.5 s"
    assert results[2].fault == "it was not tried, since another check hangs"


# A plug-in as docs/providers.md says.


def page_blocks() -> tuple[str, str, str]:
    page = (ROOT / "docs/providers.md").read_text(encoding="utf-8")
    section = page.partition("## A provider of your own")[2].partition("\n## ")[0]
    found = re.findall(r"^```\w+\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    module, project, profile = found
    return module, project, profile


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    module, project, _ = page_blocks()
    entry = re.search(r"^acme = \"(.*)\"$", project, re.MULTILINE)
    assert entry
    monkeypatch.syspath_prepend(str(tmp_path))
    write_plugin(tmp_path, "answerbus-acme", f"acme = {entry[1]}", module, GROUP)
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(cli.application(), arguments)
    error = str(done.exception) if isinstance(done.exception, SetUpError) else ""
    return (cli.EXIT_SET_UP if error else done.exit_code), done.stdout, error


async def test_the_example_of_the_page_asks_with_its_odd_field(
    acme: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_API_KEY", KEY)
    (acme / "answerbus.toml").write_text(page_blocks()[2], encoding="utf-8")
    async with misbehaving(answer(GOOD)) as server:
        variables = {"ANSWERBUS_PROFILES__ACME__BASE_URL": server.base_url}
        settings = load(acme / "answerbus.toml", variables)
        backend = backends.build(settings.profiles, StoppedClock())["acme"]
        reply = await backend.provider.ask(PROMPT, timeout_s=LIMIT_S)
        await backends.close({"acme": backend})

    sent = json.loads(server.seen[0].body)
    assert isinstance(reply, Answered)
    assert (sent["safe_mode"], sent["model"]) == (True, "acme-large")
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert (backend.dialect, backend.facts.provider) == ("openai", "acme")
    assert backend.facts.tariff is not None


def test_the_example_of_the_page_passes_the_kit(acme: Path) -> None:
    arguments = ("providers", "check", "acme", "--show", "--json")
    done = CliRunner().invoke(cli.application(), arguments)

    assert done.exit_code == 0
    found = {one["check"]: one["fault"] for one in json.loads(done.stdout)}
    assert found == dict.fromkeys([*CHECKS, "secrets"])
    assert '"acme"' in run("providers", "list", "--json")[1]
    head, body = done.stderr.split("\n\n", 1)
    assert head.startswith("POST /chat/completions HTTP/1.1\n")
    assert f"authorization: bearer {SECRET}" in head.lower()
    assert json.loads(body)["safe_mode"] is False


def test_a_provider_that_sends_nothing_has_no_request_to_show() -> None:
    kind, server = OpenAIKind(), PlayedServer()
    kind.api_type = type("Odd", (Odd,), {"request": raising, "preflight": raising})
    running.checked_in_time("openai", kind, 10.0, server)

    assert command._shown(server.first) == "No request was sent."


def test_a_request_that_has_no_json_is_shown_as_it_is() -> None:
    assert command._shown(b"POST / HTTP/1.1\r\na: b\r\n\r\nx=1") == "POST / HTTP/1.1\na: b\n\nx=1\n"
    assert command._shown(b"GET / HTTP/1.1\r\n\r\n") == "GET / HTTP/1.1\n\n\n"


def test_a_setting_that_the_plugin_does_not_know_is_named(acme: Path) -> None:
    text = page_blocks()[2].replace("safe_mode = true", "safe_mod = true")
    (acme / "answerbus.toml").write_text(text, encoding="utf-8")

    with pytest.raises(SetUpError, match="safe_mod"):
        load(acme / "answerbus.toml", {})


PLUGIN = """
from services.plugins import *
from typing import Literal

class Odd(OpenAILikeProfile):
    provider: Literal["{name}"]

class P({base}):
    profile = Odd

P = P()
"""
BAD: dict[str, tuple[str, str]] = {
    "raises at import": ("raise OSError('key=hush')", "it does not load (OSError); correct"),
    "ends the process": ("raise SystemExit", "it does not load (SystemExit); correct"),
    "hangs": ("import time; time.sleep(9)", "its import did not end in 0.5 s; correct"),
    "is no provider": ("P = 5", "has no `profile` that is a ReachedProfile"),
    "is of another name": (
        PLUGIN.format(name="other", base="OpenAILikeKind"), "are those of another name"
    ),
    "has no API": (PLUGIN.format(name="odd", base="object"), "is not a ProviderKind"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_plugin_is_named_in_one_sentence(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, fault = BAD[case]
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("services.settings.installed.LOAD_S_MAX", 0.5)
    module = f"answerbus_bad_{list(BAD).index(case)}"
    write_plugin(tmp_path, module, f"odd = {module}:P", source, GROUP)

    code, _, error = run("providers", "check", "odd")
    (tmp_path / "answerbus.toml").write_text(
        '[profiles.a]\nprovider = "odd"\nmodel = "m"\n', encoding="utf-8"
    )
    with pytest.raises(SetUpError) as raised:
        backends.build(load(tmp_path / "answerbus.toml", {}).profiles, StoppedClock())

    assert (code, fault in error, fault in str(raised.value)) == (3, True, True)
    assert "\n" not in error + str(raised.value)
    assert "hush" not in error + str(raised.value)


def test_a_header_that_would_begin_another_is_named_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = "class A(OpenAIApi):\n    headers = {'x-acme': 'a\\r\\nx-evil: 1'}\n\n"
    source = (
        PLUGIN.format(name="split", base="OpenAILikeKind")
        .replace("class P", f"{api}class P")
        .replace("profile = Odd", "profile = Odd\n    api_type = A")
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    write_plugin(tmp_path, "answerbus_split", "split = answerbus_split:P", source, GROUP)
    (tmp_path / "answerbus.toml").write_text(
        '[profiles.a]\nprovider = "split"\nmodel = "m"\n', encoding="utf-8"
    )

    with pytest.raises(SetUpError, match="the header 'x-acme' of its provider has characters"):
        backends.build(load(tmp_path / "answerbus.toml", {}).profiles, StoppedClock())


def test_two_of_one_name_are_named(acme: Path) -> None:
    write_plugin(acme, "another", "acme = another:P", "", GROUP)

    code, _, error = run("providers", "check", "acme")

    assert code == 3
    assert error == (
        "Another 1.0 and answerbus-acme 1.0 both bring the provider 'acme': uninstall one."
    )


@pytest.mark.parametrize("arguments", [("list",), ("check", "openai")])
def test_none_may_take_the_name_of_one_of_ours(
    arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    write_plugin(tmp_path, "thief", "openai = thief:P", "", GROUP)

    code, _, error = run("providers", *arguments)

    assert code == 3
    assert "thief 1.0 cannot be used: answerbus has one of that name itself" in error


class Raising(OpenAIApi):
    __slots__ = ()
    request = raising  # type: ignore[assignment]


async def test_an_exception_of_a_plugin_in_a_call_is_a_reply() -> None:
    profile = OpenAIProfile(provider="openai", model="m", base_url="http://127.0.0.1:1/v1")
    kind = OpenAIKind()
    kind.api_type = Raising
    provider = HttpProvider(kind.api(profile, connection_of(profile, SECRET)), StoppedClock())

    assert await provider.ask(PROMPT, timeout_s=LIMIT_S) == Unavailable(None, ran=True)
