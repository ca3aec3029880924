"""The hook that checks commits' messages."""

import subprocess
from pathlib import Path

import pytest

from infra.commit_message import BODY_LINE_MAX, SUBJECT_MAX, problems

HOOK = Path("infra/hooks/commit-msg")
FINE = "Bound the queue of a lane\n\nIts memory grew with what waited.\n"


@pytest.mark.parametrize(
    "message",
    [
        FINE,
        "Bound the queue\n",
        "Embed the schema of a plugin\n",
        "Merge branch 'main' into lane, however long that may be for a subject of ours",
        "fixup! bound the queue",
        "# a comment\nBound the queue\n# and another that is longer than any line may be "
        + "x " * 50,
        "Name the page\n\n" + "https://example.org/" + "x" * BODY_LINE_MAX,
    ],
)
def test_a_message_that_says_what_is_done_passes(message: str) -> None:
    assert problems(message) == []


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("", "empty"),
        ("Bound " + "x" * SUBJECT_MAX, f"at most {SUBJECT_MAX}"),
        ("Bound the queue.", "full stop"),
        ("bound the queue", "capital letter"),
        ("Bounded the queue", "no imperative"),
        ("Bounding the queue", "no imperative"),
        ("Bounds the queue", "no imperative"),
        ("What misled a new operator", "no imperative"),
        ("A word apart", "no imperative"),
        ("Bound the queue\nof a lane", "second line"),
        ("Bound the queue\n\n" + "word " * BODY_LINE_MAX, "line of the body"),
    ],
)
def test_another_is_refused_with_the_reason(message: str, text: str) -> None:
    assert [problem for problem in problems(message) if text in problem], problems(message)


def test_git_is_stopped_by_the_hook(tmp_path: Path) -> None:
    def git(*arguments: str) -> "subprocess.CompletedProcess[str]":
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *who, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    (tmp_path / "infra/hooks").mkdir(parents=True)
    for path in (HOOK, Path("infra/commit_message.py")):
        (tmp_path / path).write_bytes(path.read_bytes())
    (tmp_path / HOOK).chmod(0o755)
    git("init", "--quiet")
    git("config", "core.hooksPath", "infra/hooks")

    refused = git("commit", "--allow-empty", "--message", "Bounded the queue")
    accepted = git("commit", "--allow-empty", "--message", FINE)

    assert (refused.returncode, accepted.returncode) == (1, 0), accepted.stderr
    assert "no imperative" in refused.stderr
