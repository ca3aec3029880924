"""The command `answerbus console`: a set-up that is not safe, or not there, is said in one line."""

import socket

import pytest
from pydantic import ValidationError

from services.settings.console import ConsoleSettings
from tests.unit.test_cli import NOWHERE, ROOT, run

LONG = "x" * 16


@pytest.mark.wide
@pytest.mark.parametrize(
    ("arguments", "variables", "text"),
    [
        (("--host", "0.0.0.0"), {}, "Beyond this machine (0.0.0.0) the console needs a token: "),
        (("--token-env", "MINE"), {}, "The variable MINE is to hold a token of the console: set "),
        (("--token-env", "MINE"), {"MINE": "short"}, "A token of the console has less than 16 "),
        (
            ("--host", "0.0.0.0", "--viewer-token-env", "MINE"),
            {"MINE": LONG},
            "Beyond this machine (0.0.0.0) the console needs a token: ",
        ),
        ((), {}, f"Kafka at {NOWHERE} cannot be used, it does not answer: "),
    ],
)
def test_a_set_up_that_cannot_be_is_one_line_and_code_3(
    arguments: tuple[str, ...], variables: dict[str, str], text: str
) -> None:
    variables = {"ANSWERBUS_KAFKA__BOOTSTRAP_SERVERS": NOWHERE, **variables}

    done = run("console", "--port", "0", *arguments, folder=ROOT, **variables)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(text)
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.wide
def test_a_port_that_is_taken_is_one_line_and_code_3() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("console", "--port", str(taken.getsockname()[1]))

    assert done.returncode == 3
    assert done.stderr.startswith("The console cannot listen at 127.0.0.1:")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "url",
    [
        *("answers.acme.example", "https://a.example/path", "ftp://a.example"),
        *("https://ann:pw@a.example", "https://a b", "https://a.example:99999", "https://a:0"),
        *("http://:8080", "https://ex%20a"),
    ],
)
def test_a_public_url_is_one_without_a_path(url: str) -> None:
    with pytest.raises(ValidationError):
        ConsoleSettings(public_url=url)


@pytest.mark.wide
@pytest.mark.parametrize("command", ["console", "top"])
def test_a_worker_without_a_scheme_is_a_usage_error(command: str) -> None:
    done = run(command, "--worker", "10.0.0.7:8080")

    assert done.returncode == 2
    assert "must be addresses such as http://10.0.0.7:8080" in " ".join(done.stderr.split())
