"""The command line as a whole: exit codes, clean messages, and no work at import."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from typer.testing import CliRunner

from answerbus.client import BusUnavailable
from answerbus.client.timeout import OUTCOME_DELAY_S_MAX, TIMEOUT_S_DEFAULT
from answerbus.schema_export import documents
from services import cli
from services.commands import chatting
from services.commands.ask import RUN_WAIT_DEFAULT, WAIT_S_DEFAULT
from services.settings.settings import SetUpError
from tests.plugins.installing import write_plugin

ROOT = Path(__file__).parents[2]
NOWHERE = "127.0.0.1:1"  # nobody listens on port 1


def run(
    *arguments: str, folder: Path = ROOT, **variables: str
) -> "subprocess.CompletedProcess[str]":
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ANSWERBUS_")}  # noqa: TID251
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "services.cli", *arguments],
        cwd=folder,
        env={**clean, **path, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.wide
@pytest.mark.parametrize(
    ("arguments", "suggested"), [(("aks",), "'ask'"), (("replay", "lst"), "'list'")]
)
def test_a_misspelt_command_is_answered_with_a_suggestion(
    arguments: tuple[str, ...], suggested: str
) -> None:
    done = run(*arguments)

    assert done.returncode == 2
    assert f"Did you mean {suggested}?" in done.stderr


@pytest.mark.wide
@pytest.mark.parametrize("command", ["ask", "replay", "topics"])
def test_help_shows_defaults_and_flags_without_a_value(command: str) -> None:
    shown = run(command, "run" if command == "replay" else "", "--help").stdout

    if command == "ask":
        for default in ("(3)", "(3600)", "(default)", "(a new one)", "(dead_letter)", "(120, for"):
            assert f"[default: {default}" in shown
    assert [line for line in shown.splitlines() if "<bool>" in line and "--help" not in line] == []


@pytest.mark.wide
def test_a_terminal_that_lacks_a_character_shows_a_question_mark() -> None:
    done = run("contracts", "list", PYTHONIOENCODING="latin-1", PYTHONUTF8="0")

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.wide
@pytest.mark.long
def test_top_without_kafka_is_an_error_of_the_set_up() -> None:
    done = run("top", "--json", ANSWERBUS_KAFKA__BOOTSTRAP_SERVERS=NOWHERE)

    assert done.returncode == cli.EXIT_SET_UP
    assert NOWHERE in done.stderr
    assert done.stdout == ""


def test_versions_of_services_and_contracts_are_shown() -> None:
    shown = CliRunner().invoke(cli.application(), ["--version"])
    assert shown.exit_code == 0
    services, contracts = (
        f"{name} {version(name)}" for name in ("answerbus-services", "answerbus")
    )
    assert shown.output.startswith(f"{services}, {contracts}, Python 3.")


@pytest.mark.parametrize(
    "command",
    ["ask", "watch", "workflow", "audit", "replay", "doctor", "topics", "contracts", "tools"],
)
def test_every_command_explains_itself(command: str) -> None:
    done = CliRunner().invoke(cli.application(), [command, "--help"])

    assert done.exit_code == 0
    assert "Usage:" in done.stdout


def test_the_overview_names_all_commands() -> None:
    done = run("--help")

    assert done.returncode == 0, done.stderr
    for command in (
        *("worker", "console", "ask", "watch", "workflow", "audit", "replay", "doctor"),
        *("topics", "contracts", "tools", "profiles"),
    ):
        assert f" {command} " in done.stdout


@pytest.mark.wide
@pytest.mark.parametrize(
    "arguments",
    [
        ("watch",),
        ("workflow", "order-1"),
        ("audit", "verify"),
        ("replay", "groups"),
        ("replay", "run", "--yes"),
        ("topics", "apply"),
        ("ask", "Hi"),
        ("ask", "Hi", "--no-wait"),
    ],
    ids=" ".join,
)
def test_a_broker_that_is_not_there_is_one_line_and_code_3(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, ANSWERBUS_KAFKA__BOOTSTRAP_SERVERS=NOWHERE)

    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == (
        f"Kafka at {NOWHERE} cannot be used, it does not answer: see that a broker runs there, "
        "and that address and credentials are right.\n"
    )


@pytest.mark.wide
def test_a_wrong_setting_is_one_line_and_code_3(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("[kafka]\npartitions = 0\n")

    done = run("topics", "list", "--config", str(wrong))

    assert done.returncode == 3
    assert done.stderr.startswith("Setting `kafka.partitions`: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask",),
        ("ask", "Hi", "--request", "-"),
        ("ask", "--request", "-", "--profile", "large"),
        ("ask", "Hi", "--schema", "missing.json"),
        ("ask", "Hi", "--contract", "unheard-of"),
        ("ask", "Hi", "--bare"),
        ("ask", "Hi", "--money", "1,50"),
        ("ask", "Hi", "--at-last", "give-up"),
        ("ask", "Hi", "--policy", "order=none"),
        ("ask", "Hi", "--policy", "ordering=random"),
        ("watch", "--kind", "telegram"),
        ("watch", "--limit", "0"),
        ("replay", "run", "--where", "cause"),
        ("replay", "list", "--where", "cause=nope"),
        ("replay", "list", "--where", "failure=nope"),
        ("contracts", "export"),
        ("ask", "Hi", "--workflow", ""),
        ("chat", "helper", "--workflow", ""),
        ("replay", "groups", "--by", "colour"),
        ("replay", "dismiss", "--yes"),
        ("topics", "delete"),
        ("topics", "apply", "--toolset", "Orders.get_order"),
        ("cancel", "--workflow", "", "--yes", "--reason", "wrong"),
        ("workflow", "order-\udcfc"),  # as Python reads the byte FC, Latin-1 for an umlaut
        ("cancel", "r-1", "--workflow", "order-1", "--yes", "--reason", "f\udcfcr"),
        ("replay", "list", "--id", "\udcfc"),
        ("--no-such-option",),
    ],
    ids=ascii,
)
def test_wrong_usage_is_code_2_before_anything_is_done(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = CliRunner().invoke(cli.application(), [*arguments])

    assert done.exit_code == 2
    assert "Error" in done.stderr


def test_a_line_that_is_not_utf_8_is_read_in_each_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else `chat` would end with a traceback, where it is to say so and go on."""
    typed = TextIOWrapper(BytesIO(b"h\xffllo\n"), "utf-8", "strict")
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setattr(sys, "argv", ["answerbus", "--version"])
    with pytest.raises(SystemExit):
        cli.main()

    assert chatting._typed() == "h\udcffllo\n"


@pytest.mark.parametrize("error", [SetUpError("Do [this]."), BusUnavailable("Do [this].")])
def test_set_up_errors_end_with_code_3_and_their_own_words(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(cli, "application", lambda: fail)
    with pytest.raises(SystemExit) as ended:
        cli.main()

    assert ended.value.code == 3
    assert capsys.readouterr().err == "Do [this].\n"


# What takes long to load: the client of Kafka, all events, settings, what validates and serves.
HEAVY = {
    *("aiokafka", "faststream", "aiohttp", "openai", "jsonschema_rs", "jinja2", "cramjam"),
    *(
        "answerbus.request",
        "pydantic_settings",
        "services.kafka.options",
        "services.settings.settings",
    ),
}
LOADED = "import sys, services.cli as c\ntry: c.main()\nexcept SystemExit: print(*sys.modules)"


@pytest.mark.wide
@pytest.mark.parametrize("arguments", [("--help",), ("ask", "--help"), ("--nonsense",)])
def test_the_start_of_the_command_line_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments],
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    *_, modules = done.stdout.splitlines()
    assert "services.cli" in modules
    assert not HEAVY & set(modules.split())


@pytest.mark.wide
def test_an_answer_is_waited_for_without_the_libraries_of_the_worker() -> None:
    script = "import sys, services.commands.asking; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    worker = {"faststream", "aiohttp", "openai", "jsonschema_rs", "jinja2"}
    assert not worker & set(done.stdout.split())


@pytest.mark.parametrize("name", cli._PARTS)
def test_the_list_of_commands_says_what_each_says_itself(name: str) -> None:
    command = cli.loaded(name)

    assert cli._PARTS[name].help == command.help.strip().partition("\n")[0]


def test_ask_waits_as_long_as_the_client_does() -> None:
    assert WAIT_S_DEFAULT == TIMEOUT_S_DEFAULT
    assert f"{OUTCOME_DELAY_S_MAX:g} s after its deadline" in RUN_WAIT_DEFAULT


def test_importing_reads_nothing_and_connects_to_nothing(tmp_path: Path) -> None:
    """Not the settings, which are wrong here, and not the worker's libraries."""
    (tmp_path / "answerbus.toml").write_text("wrong")
    script = "import sys, services.cli; print({'openai', 'faststream.kafka'} & sys.modules.keys())"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout == "set()\n"


@pytest.mark.wide
@pytest.mark.parametrize("command", [("worker",), ("ask", "Hi"), ("contracts", "export", "x")])
def test_a_plugin_that_cannot_be_used_is_one_line_and_code_3(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    write_plugin(tmp_path, "acme-broken", "x = acme_broken:C", "raise RuntimeError('no licence')")
    (tmp_path / "answerbus.toml").write_text(
        '[profiles.default]\nprovider = "scripted"\nscript = "x"\n'
    )

    done = run(*command, folder=tmp_path)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines()[-1] == (
        "The contract 'x' (acme_broken:C) of the distribution acme-broken 1.0 cannot be used: it "
        "does not load (RuntimeError: no licence). Correct or uninstall that distribution."
    )


@pytest.mark.wide
def test_schemas_of_plugins_are_written_too(tickets_plugin: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(tickets_plugin), str(ROOT), *sys.path])

    done = run("contracts", "export", "here", folder=tmp_path, PYTHONPATH=path)

    assert done.returncode == 0, done.stderr
    names = {path.relative_to(tmp_path / "here").as_posix() for path in tmp_path.rglob("*.json")}
    own = {"contracts/ticket_routing.v1.json", "contracts/ticket_routing.v1.asked.json"}
    assert names == documents().keys() | own


@pytest.mark.wide
def test_schemas_are_written_where_one_says_and_then_left_alone(tmp_path: Path) -> None:
    first = CliRunner().invoke(cli.application(), ["contracts", "export", str(tmp_path)])
    second = CliRunner().invoke(cli.application(), ["contracts", "export", str(tmp_path)])

    written = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes().decode()
        for path in tmp_path.rglob("*.json")
    }
    assert written == documents()
    assert first.stdout == f"{len(written)} schemas in {tmp_path}, {len(written)} changed\n"
    assert second.stdout == f"{len(written)} schemas in {tmp_path}, 0 changed\n"


@pytest.mark.wide
@pytest.mark.parametrize("arguments", [("topics", "list"), ("topics", "list", "--json")])
def test_a_full_disk_is_said_in_one_line(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "services.cli", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},  # noqa: TID251
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    assert done.returncode == 3
    assert done.stderr == "What this command writes cannot be kept: No space left on device.\n"


@pytest.mark.wide
@pytest.mark.parametrize("arguments", [("ask", "hello"), ("ask", "--no-such-option")])
def test_where_errors_cannot_be_written_the_exit_code_stays(arguments: tuple[str, ...]) -> None:
    path = os.pathsep.join([str(ROOT), *sys.path])
    away = {"PYTHONPATH": path, "ANSWERBUS_KAFKA__BOOTSTRAP_SERVERS": NOWHERE}
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "services.cli", *arguments],
            cwd=ROOT,
            env={**os.environ, **away},  # noqa: TID251
            stderr=full,
            timeout=60,
            check=False,
        )

    assert done.returncode == 3


@pytest.mark.wide
def test_a_command_without_standard_input_says_that_it_cannot_ask() -> None:
    command = [sys.executable, "-m", "services.cli", "cancel", "--workflow", "w", "--reason", "r"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},  # noqa: TID251
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2, done.stderr
    assert "There is no terminal to ask at" in done.stderr


def test_a_fault_that_quotes_a_file_commands_no_terminal(tmp_path: Path) -> None:
    request = {
        "kind": "request",
        "request_id": "r",
        "workflow_id": "w",
        "answer_schema": {"kind": "text"},
        "context": {"instructions": "x"},
        "labels": {"\x1b]0;x\x07\x1b[2J": 5},
    }
    cassette = {"kind": "cassette", "version": 1, "workflow_id": "w"}
    file = tmp_path / "cassette.json"
    file.write_text(json.dumps({**cassette, "requests": [{"request": request}]}))
    done = CliRunner().invoke(cli.application(), ["play", str(file)])

    assert done.exit_code == 2
    assert "\x1b]" not in done.output
    assert r"\u001b]0;x" in done.output
