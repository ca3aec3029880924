"""Checks a commit's message: an imperative subject of at most 72 characters, a body apart from it.

Called by git through infra/hooks/commit-msg, with any Python 3.11: it imports nothing of ours.
"""

import re
import sys
from pathlib import Path

SUBJECT_MAX = 72  # characters
BODY_LINE_MAX = 100  # characters, but for words that are longer alone
_MADE_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")
_NO_VERB = {"a", "an", "the", "this", "that", "some", "more", "what", "where", "when", "minor"}
_SAME_IN_THE_IMPERATIVE = {
    *("bring", "embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "string"),
    *("access", "address", "bypass", "compress", "cross", "discuss", "dismiss", "express", "focus"),
    *("guess", "miss", "pass", "press", "process", "suppress", "toss"),
}


def problems(message: str) -> list[str]:
    """The faults of a message, a sentence each; none if it is fine."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    while lines and not lines[0].strip():
        lines.pop(0)
    subject = lines[0] if lines else ""
    if subject.startswith(_MADE_BY_GIT):
        return []
    return [*_of_subject(subject), *_of_body(lines[1:])]


def _of_subject(subject: str) -> list[str]:
    found = []
    if not subject.strip():
        return ["the subject is empty: say what the commit does"]
    if len(subject) > SUBJECT_MAX:
        found.append(f"the subject has {len(subject)} characters: at most {SUBJECT_MAX}")
    if subject.endswith("."):
        found.append("the subject ends with a full stop: leave it out")
    word = re.split(r"[^A-Za-z]", subject, maxsplit=1)[0]
    if not word or not word[0].isupper():
        found.append("the subject starts with no capital letter")
    if not _is_imperative(word.lower()):
        found.append(
            f"{word!r} is no imperative: write what the commit does, as in 'Bound the queue'"
        )
    return found


def _is_imperative(word: str) -> bool:
    """Whether the word can be a verb's imperative, as far as its form shows."""
    if word in _SAME_IN_THE_IMPERATIVE:
        return True
    return word not in _NO_VERB and not word.endswith(("ed", "ing", "s"))


def _of_body(lines: list[str]) -> list[str]:
    found = []
    if lines and lines[0].strip():
        found.append("the second line is not empty: it parts the subject from the body")
    for line in lines:
        if len(line) > BODY_LINE_MAX and " " in line.strip():
            found.append(f"a line of the body has {len(line)} characters: at most {BODY_LINE_MAX}")
            break
    return found


def main() -> int:
    """Exit status 1, with the problems on stderr, if the message is not fine."""
    found = problems(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for problem in found:
        print(f"commit message: {problem}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
