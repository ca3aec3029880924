"""What the commands of tools print, and what they say of a toolset that cannot be loaded."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from answerbus.client.bus import Bus
from answerbus.tools import topic_set_up
from answerbus.toolset_card import ToolCard, ToolsetCard
from services import cli
from services.command_line import PlainConsole, print_table
from services.settings.settings import SetUpError
from services.tools import accepting
from services.tools.command import tools_table

LONG = "the_weather_in_a_city_by_its_name_now"


def test_the_name_of_a_tool_is_shown_whole_on_a_narrow_terminal() -> None:
    tool = ToolCard(name=LONG, description="The weather.\nMore.", args_schema={"type": "object"})
    console = PlainConsole(width=80)
    with console.capture() as capture:
        console.print(tools_table(ToolsetCard(toolset="weather", tools=(tool,))))

    (line,) = [line for line in capture.get().splitlines() if LONG in line]
    assert line.startswith(f"weather.{LONG} ")
    assert "More" not in capture.get()


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("chars", [30, 100])
def test_a_long_name_of_a_tool_hides_no_column(*, chars: int, is_terminal: bool) -> None:
    fields = {"description": "Weather", "args_schema": {}, "approval": "after_untrusted"}
    tool = ToolCard.model_validate({"name": "N" * chars, **fields})
    console = PlainConsole(width=80, force_terminal=is_terminal, color_system=None)
    with console.capture() as capture:
        print_table(console, tools_table(ToolsetCard(toolset="weather", tools=(tool,))))

    assert capture.get().count("N") == chars
    for beginning in ("at_leas", "after_u", "30 s", "Weather"):
        assert beginning in capture.get()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def broken(:", "SyntaxError: "),
        ("import no_such_library", "ModuleNotFoundError: No module named 'no_such_library'"),
        ("raise ValueError('no\\nstation')", "ValueError: no"),
        ("x = 1", "AttributeError: "),
    ],
)
def test_a_toolset_that_cannot_be_loaded_is_one_line(
    text: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli.application(), ["tools", "serve", f"{name}:weather"])

    assert isinstance(done.exception, SetUpError)
    message = str(done.exception)
    assert message.startswith(f"The toolset {name}:weather cannot be loaded: {why}")
    assert "\n" not in message


@pytest.mark.parametrize("token", ["a-token-of-length\r\nX: y", "a-tokén-of-length"])
def test_a_token_that_fits_no_header_is_refused_and_not_shown(
    token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", token)
    command = ["tools", "mcp", "github", "--url", "http://127.0.0.1:9", "--bearer-env"]
    done = CliRunner().invoke(cli.application(), [*command, "GITHUB_TOKEN"])

    assert isinstance(done.exception, SetUpError)
    why = "The token in GITHUB_TOKEN has a character that no header can carry."
    assert str(done.exception) == why


@pytest.mark.parametrize("seconds", ["inf", "21601", "0"])
def test_a_time_out_that_no_tool_may_have_is_a_fault_of_the_command(seconds: str) -> None:
    command = ["tools", "mcp", "time", "--tool-timeout-s", seconds, "--", "mcp-server-time"]
    assert CliRunner().invoke(cli.application(), command).exit_code == 2


def test_all_topics_that_are_seen_to_are_printed_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Kafka refuses to create topics of which one is named twice."""

    async def create_missing(*_: object) -> None:
        """Without Kafka."""

    monkeypatch.setattr(topic_set_up, "create_missing", create_missing)
    config = tmp_path / "answerbus.toml"
    config.write_text("[kafka]\ntopic_prefix = 'acme'\n")
    arguments = ["tools", "topics", "orders", "orders", "--config", str(config)]

    done = CliRunner().invoke(cli.application(), arguments)

    assert done.stdout.split() == [
        "acme.tools.orders.v1",
        "acme.toolsets.orders.v1",
        "acme.tool-results.v1",
    ]


def test_a_toolset_that_was_not_announced_is_no_fault_of_the_set_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def counts(_bus: Bus, *_topics: object) -> dict[object, int]:
        return {}

    async def no_cards(_bus: Bus) -> list[ToolsetCard]:
        return []

    monkeypatch.setattr(Bus, "counts", counts)
    monkeypatch.setattr(accepting, "cards", no_cards)
    done = CliRunner().invoke(cli.application(), ["tools", "accept", "orders", "--yes"])

    assert done.exit_code == 1, done.output
    assert done.stderr.startswith("No toolset orders was announced: ")


@pytest.mark.parametrize("name", ["orders.get_order", "Orders", "a b", ""])
@pytest.mark.parametrize("command", [("topics",), ("mcp", "--url", "http://localhost:1/mcp")])
def test_a_name_that_no_toolset_may_have_is_refused(command: tuple[str, ...], name: str) -> None:
    done = CliRunner().invoke(cli.application(), ["tools", *command, "--", name])

    assert done.exit_code == 2, done.output
    assert f"{name!r} cannot be the name" in done.stderr
