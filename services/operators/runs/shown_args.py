"""The arguments of a tool call as they are shown to the person who approves it; pure."""

import json
import unicodedata
from dataclasses import dataclass

from answerbus.control import ApprovalRequested
from services.text.digest import canonical_digest
from services.text.escaping import plain_json
from services.text.look_alikes import looks_latin
from services.text.nesting import nests_deeper

ARGS_CHARS_MAX = 4_000  # a person can read so much at a time; longer arguments are cut
INDENTED_LEVELS_MAX = 12  # deeper ones are on one line: 32 KB at 90 levels are 3 MB of lines
DIGEST_CHARS = 8  # of the digest, to be typed for arguments that are cut
LETTERS_MAX = 20  # beyond ASCII, that are named
_DIGEST_PREFIX = "sha256:"


@dataclass(frozen=True, slots=True)
class ShownArgs:
    """`text` is whole, or its beginning; `hidden` characters follow. `letters`: see `_letters`."""

    text: str
    hidden: int
    letters: tuple[str, ...]
    digest: str

    @property
    def is_cut(self) -> bool:
        """Whether they are too long to be read at once."""
        return self.hidden > 0

    def is_typed(self, typed: str) -> bool:
        """Whether a person gives the beginning of the digest, as printed below whole arguments."""
        first = typed.strip().lower().removeprefix(_DIGEST_PREFIX)
        rest = self.digest.removeprefix(_DIGEST_PREFIX)
        return len(first) >= DIGEST_CHARS and rest.startswith(first)


def shown_args(requested: ApprovalRequested, chars_max: int | None = ARGS_CHARS_MAX) -> ShownArgs:
    """Members in one order, whatever the model wrote; what cannot be seen is escaped.

    The digest is computed here, from what is shown.
    """
    indent = None if nests_deeper(requested.args, INDENTED_LEVELS_MAX) else 2
    written = json.dumps(requested.args, ensure_ascii=False, indent=indent, sort_keys=True)
    text = plain_json(written)
    shown = text[:chars_max]
    return ShownArgs(
        shown, len(text) - len(shown), _letters(text), canonical_digest(requested.args)
    )


def is_intact(requested: ApprovalRequested) -> bool:
    """Whether the digest that an approval would name is that of these arguments."""
    return canonical_digest(requested.args) == requested.args_digest


def _letters(text: str) -> tuple[str, ...]:
    """Letters beyond ASCII by name, first those that look like others: Cyrillic ones in a name."""
    beyond = {sign for sign in text if not sign.isascii()}
    found = sorted(beyond, key=lambda sign: (not looks_latin(sign), sign))
    named = [f"{sign} U+{ord(sign):04X} {unicodedata.name(sign, '?')}" for sign in found]
    more = [f"and {len(found) - LETTERS_MAX} more"] if len(found) > LETTERS_MAX else []
    return (*named[:LETTERS_MAX], *more)
