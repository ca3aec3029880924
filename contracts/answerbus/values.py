"""Smart constructors for text that a language model wrote: accepted text is safe to pass on."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from answerbus import limits

PATH_BYTES_MAX = 4_096
SEGMENT_BYTES_MAX = 255
ARGUMENT_BYTES_MAX = 2_048


class Rule(NamedTuple):
    """What a text must be; as a return value, the rule that a text breaks."""

    code: str
    expected: str


NOT_UTF8 = Rule("not_utf8", "text that can be encoded as UTF-8")
SEGMENT_TOO_LONG = Rule(
    "too_long", f"path segments of at most {SEGMENT_BYTES_MAX} bytes of UTF-8 each"
)
ESCAPES_SANDBOX = Rule("escapes_sandbox", "a relative path below the working tree")
EMPTY_OR_DOT_SEGMENT = Rule(
    "empty_or_dot_segment", "a path to a file, without empty or '.' segments, such as src/app.ts"
)
COLON = Rule("drive_or_url", "a relative path without a colon: no drive, no URL, no stream")
BACKSLASH = Rule("backslash", "a path with '/' between its segments and no backslash")
CONTROL_CHARACTER = Rule(
    "control_character", "a path without control characters, tabs and line breaks"
)
INVISIBLE_CHARACTER = Rule("invisible_character", "a path without invisible characters")
INSIDE_GIT = Rule("inside_git", "a path outside of the repository's own .git directory")
DEVICE_NAME = Rule("device_name", "path segments that no system takes for a device, such as nul")
PADDED_SEGMENT = Rule(
    "padded_segment",
    "path segments that neither begin nor end with white space and do not end with a dot",
)
LOOK_ALIKE = Rule(
    "look_alike", "a path whose separators, dots and colons are plain ASCII, not look-alikes"
)
NOT_AN_ARGUMENT = Rule(
    "not_an_argument", "one line of printable text that is not empty and does not begin with '-'"
)

# What NFKC leaves alone although people, fonts or legacy code pages take it for the ASCII sign.
# Letters and digits are left out: they are at home in file names.
_LOOK_ALIKES = {
    **dict.fromkeys(map(ord, "\u1735\u2041\u2044\u2215\u2571\u27cb\u29f8\u31d3\U0001d23a"), "/"),
    **dict.fromkeys(map(ord, "\u2216\u2572\u27cd\u29f5\u29f9\u31d4\U0001d20f\U0001d23b"), "\\"),
    **dict.fromkeys(map(ord, "\u06d4\u0701\u0702\u3002\ua4f8\ua60e\uff61\U00010a50"), "."),
    ord("\ua4fa"): "..",
}
# What file systems that fold case drop before they compare names (Unicode's default ignorables), as
# far as it is not of category Cf. They are at home in names: an emoji may end with one.
_UNSEEN_RANGES = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2065, 0x2065),
    (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xFFF0, 0xFFF8), (0xE0000, 0xE0FFF),
)  # fmt: skip
_UNSEEN = dict.fromkeys(code for first, last in _UNSEEN_RANGES for code in range(first, last + 1))
# NTFS also knows `.git` by its short name and drops trailing dots and spaces; a stream needs a
# colon and what HFS+ ignores is of category Cf: both are refused anyway.
_DOT_GIT = re.compile(r"(?:\.git|git~[0-9]+)[ .]*", re.IGNORECASE)
# Windows takes these for devices in any folder, with any extension.
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|clock\$|con(?:in|out)\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3])[ ]*(?:\..*)?",
    re.IGNORECASE,
)


def within(text: str, bytes_max: int) -> Rule | None:
    """The rule that a text breaks if it may have `bytes_max` bytes of UTF-8."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return NOT_UTF8
    return Rule("too_long", f"at most {bytes_max} bytes of UTF-8") if size > bytes_max else None


def _no_rule(_: str) -> None:
    return None


@dataclass(frozen=True)
class Checked:
    """Marks a `str` in `Annotated` as bounded in bytes of UTF-8 and free of broken rules.

    The JSON schema says `maxLength`: in characters, so never stricter than the bytes.
    """

    bytes_max: int
    rule: Callable[[str], Rule | None] = _no_rule

    def broken(self, text: str) -> Rule | None:
        """The first rule that the text breaks, or None."""
        return within(text, self.bytes_max) or self.rule(text)

    def validate(self, text: str) -> str:
        """The text itself; raises `PydanticCustomError`, which never quotes the text."""
        if rule := self.broken(text):
            raise PydanticCustomError(rule.code, rule.expected)
        return text

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "maxLength": self.bytes_max}


def _form_rule(path: str) -> Rule | None:
    """The rules on separators, segments and characters, for one spelling of a path."""
    segments = path.split("/")
    if path.startswith(("/", "~")) or ".." in segments:
        return ESCAPES_SANDBOX
    if ":" in path:
        return COLON
    if "" in segments or "." in segments:
        return EMPTY_OR_DOT_SEGMENT
    if "\\" in path:
        return BACKSLASH
    if not _is_plain(path) and any(map(_is_control, path)):
        return CONTROL_CHARACTER
    if any(map(_DOT_GIT.fullmatch, segments)):
        return INSIDE_GIT
    if any(map(_DEVICE.fullmatch, segments)):
        return DEVICE_NAME
    return None


def _is_plain(path: str) -> bool:
    """Printable ASCII, as nearly all paths are: no character of it can hide anything."""
    return path.isascii() and path.isprintable()


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Zl", "Zp"}


def _path_rule(path: str) -> Rule | None:
    segments = path.split("/")
    if any(len(segment.encode()) > SEGMENT_BYTES_MAX for segment in segments):
        return SEGMENT_TOO_LONG
    if rule := _form_rule(path):
        return rule
    if not _is_plain(path) and (rule := _lookalike_rule(path)):
        return rule
    if any(segment != segment.strip() or segment.endswith(".") for segment in segments):
        return PADDED_SEGMENT
    return None


def _lookalike_rule(path: str) -> Rule | None:
    """The rules on characters that are not seen, or look like others."""
    if any(unicodedata.category(character) == "Cf" for character in path):
        return INVISIBLE_CHARACTER
    seen = path.translate(_UNSEEN)
    if _form_rule(seen):
        return INVISIBLE_CHARACTER
    plain = unicodedata.normalize("NFKC", seen.translate(_LOOK_ALIKES))
    if plain.count("/") != path.count("/") or _form_rule(plain):
        return LOOK_ALIKE
    return None


def _argument_rule(text: str) -> Rule | None:
    fits = text and not text.startswith("-") and text.isprintable()
    return None if fits else NOT_AN_ARGUMENT


SANDBOXED_PATH = Checked(PATH_BYTES_MAX, _path_rule)

SandboxedRelativePath = Annotated[str, SANDBOXED_PATH]
"""A path that stays below any root it is joined to, on every file system, and outside of .git."""

Rationale = Annotated[str, Checked(limits.RATIONALE_BYTES_MAX)]
"""Why an answer is what it is: free text for the audit alone, never in a prompt again."""

Detail = Annotated[str, Checked(limits.REASON_BYTES_MAX)]
"""Free text for the reader of an answer."""

Argument = Annotated[str, Checked(ARGUMENT_BYTES_MAX, _argument_rule)]
"""Text that may stand as one argument of a command: a package, a version."""
