"""What `answerbus approvals` and `answerbus cancel` say to the person who decides."""

import json
import shlex
import sys
from pathlib import Path

import pytest
import typer
from pydantic import JsonValue
from typer.testing import CliRunner

from answerbus.client.testing import FakeClient
from answerbus.control import ApprovalRequested, ControlApplied, InputRequested
from services import cli
from services.command_line import stdout
from services.commands import cancel, controlling
from services.commands.approvals import changed_args, check, json_of
from services.commands.cancel import said_of
from services.operators.runs.fold import RunFold
from services.operators.runs.rendering import tree_of
from services.operators.runs.run_words import approval_lines, question_lines
from services.operators.runs.shown_args import ARGS_CHARS_MAX
from services.text.digest import canonical_digest
from tests.unit.operators.runs.events import approval_asked, call, event, step

CALL = "01a205d4-95e1-7d91-8f7d-22533807ec71.call.1.0"
APPROVE = f"answerbus approvals approve {CALL} --reason …"


def test_a_call_that_awaits_approval_is_listed_with_its_whole_id_and_the_command() -> None:
    asked = approval_asked(CALL, tool="orders.refund", args={"order_id": "\x1b[31m4711"})
    assert isinstance(asked, ApprovalRequested)

    first, *args, about, command = approval_lines(asked)

    assert first == "orders.refund"
    assert args == ["{", '  "order_id": "\\u001b[31m4711"', "}"]
    assert about.startswith(f"workflow {asked.workflow_id}, since 20")
    assert command == APPROVE


def test_yes_prints_what_it_approves_and_does_not_approve_what_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args: dict[str, JsonValue] = {"note": "x" * ARGS_CHARS_MAX}
    digest = canonical_digest(args)
    cut = approval_asked(CALL, args=args, args_digest=digest)
    whole = approval_asked(CALL, args={"a": 1}, args_digest=canonical_digest({"a": 1}))
    changed = approval_asked(CALL, args={"a": 2}, args_digest=canonical_digest({"a": 1}))
    assert isinstance(cut, ApprovalRequested)
    assert isinstance(whole, ApprovalRequested)
    assert isinstance(changed, ApprovalRequested)

    check(whole, None, may_ask=False)
    check(cut, digest, may_ask=False)
    for requested, typed in ((cut, None), (cut, "0" * 64), (whole, "0" * 64), (changed, None)):
        with pytest.raises(typer.Exit):
            check(requested, typed, may_ask=False)
    assert f"answerbus approvals show {CALL} --workflow" in capsys.readouterr().err


def test_a_question_is_listed_with_what_may_be_answered_and_the_command() -> None:
    asked = event("input_requested/address", call_id=CALL, question="Where\x1b[31m?\nworkflow w")
    assert isinstance(asked, InputRequested)

    question, forged, schema, about, command = question_lines(asked)

    assert (question, forged) == ("│ Where\\u001b[31m?", "│ workflow w")
    assert schema.startswith('{"type": "object"')
    assert about.startswith(f"workflow {asked.workflow_id}, to shipping, since 20")
    assert command == f"answerbus approvals answer {CALL} --value …"


LARGE = json.dumps("x" * 70_000)


@pytest.mark.parametrize("text", ["High Street", "{", "NaN", '{"a":1,"a":2}', LARGE])
def test_an_answer_that_is_no_json_or_too_large_is_refused_before_it_is_sent(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        json_of(text, "--value")


def test_a_tree_is_whole_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    request_id = CALL.partition(".")[0]
    fold = RunFold()
    fold.take(step(request_id, 1, call(request_id, 1, call_id=CALL, state="awaits_approval")))
    fold.take(approval_asked(CALL))
    (run,) = fold.runs()

    stdout().print(tree_of(run, show_content=False), soft_wrap=False)

    shown = capsys.readouterr().out
    assert CALL in shown, "a line is wrapped between its words"
    assert "--reason …" in shown


def test_a_workflow_without_an_open_request_is_not_said_to_be_cancelled() -> None:
    remembered = event("control_applied/nothing", effect="remembered", requests=[])
    assert isinstance(remembered, ControlApplied)

    assert said_of(None, "w", remembered).startswith("The workflow w has no open request.")
    assert "has read the request yet" in said_of("r-1", "w", remembered)


@pytest.mark.parametrize(
    ("request_id", "effect", "code"),
    [
        ("r-1", "remembered", 0),
        ("r-1", "nothing", 1),
        (None, "remembered", 1),
        (None, "cancelled", 0),
    ],
)
def test_a_script_learns_from_the_exit_code_whether_anything_was_open(
    request_id: str | None, effect: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = event("control_applied/nothing", effect=effect)

    async def cancelled(*_: object) -> object:
        return applied

    monkeypatch.setattr(cancel, "_cancel", cancelled)
    command = ["cancel", *filter(None, [request_id]), "--workflow", "w", "--reason", "r", "--yes"]

    assert CliRunner().invoke(cli.application(), command).exit_code == code


def _editor(folder: Path, python: str) -> str:
    """One that is a program: it changes the file of its last argument."""
    script = folder / "editor.py"
    script.write_text(f"import sys, pathlib\nfile = pathlib.Path(sys.argv[-1])\n{python}\n")
    return shlex.join([sys.executable, str(script)])


def test_arguments_are_changed_in_an_editor_or_given_and_shown_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args: dict[str, JsonValue] = {"cents": 500}
    asked = approval_asked(CALL, args=args, args_digest=canonical_digest(args))
    assert isinstance(asked, ApprovalRequested)
    editor = _editor(tmp_path, "file.write_text(file.read_text().replace('500', '50'))")

    assert changed_args(asked, None, None) is None
    assert changed_args(asked, None, editor) == {"cents": 50}
    assert changed_args(asked, '{"cents": 5}', None) == {"cents": 5}
    assert '"cents": 50' in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        changed_args(asked, '{"cents": 5e2}', None)
    with pytest.raises(typer.BadParameter):
        changed_args(asked, '{"cents": 5}', editor)


def test_the_digits_of_a_large_number_as_a_text_are_a_change() -> None:
    args: dict[str, JsonValue] = {"account": 2**53 + 1}
    asked = approval_asked(CALL, args=args, args_digest=canonical_digest(args))
    assert isinstance(asked, ApprovalRequested)
    text = str(2**53 + 1)

    assert changed_args(asked, f'{{"account": "{text}"}}', None) == {"account": text}


MANY = "file.write_text('{\"a\": [' + '0,' * 5000 + '0]}')"


@pytest.mark.parametrize("python", ["file.write_text('[]')", MANY, "file.unlink()", "sys.exit(2)"])
def test_what_an_editor_leaves_must_be_arguments(tmp_path: Path, python: str) -> None:
    asked = approval_asked(CALL, args={"a": 1}, args_digest=canonical_digest({"a": 1}))
    assert isinstance(asked, ApprovalRequested)

    for editor in (_editor(tmp_path, python), "no-such-editor", "'"):
        with pytest.raises(typer.BadParameter):
            changed_args(asked, None, editor)


@pytest.mark.parametrize(
    ("request_id", "reason", "said"),
    [("r 1", "late", "request_id: "), ("r-1", "x" * 2_049, "reason: at most 2048 bytes of UTF-8")],
)
def test_what_no_control_may_have_is_a_wrong_argument(
    request_id: str, reason: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controlling, "client_of", lambda _: FakeClient())
    command = ["cancel", request_id, "--workflow", "w", "--reason", reason, "--yes"]
    done = CliRunner().invoke(cli.application(), command)

    assert done.exit_code == 2
    assert f"Invalid value: {said}" in done.stderr
