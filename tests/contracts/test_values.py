"""The smart constructors: which texts pass, which rule the others break, and in which words."""

import posixpath
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from answerbus import values
from answerbus.values import SANDBOXED_PATH, Argument, Rationale, SandboxedRelativePath

ROOT = "/srv/tree"


def codes(kind: Any, text: object) -> list[str]:
    try:
        TypeAdapter(kind).validate_python(text, strict=True)
    except ValidationError as error:
        return [found["type"] for found in error.errors()]
    return []


@pytest.mark.parametrize(
    "path",
    [
        "package.json",
        "a",
        ".gitignore",
        ".github/workflows/ci.yml",
        ".gitmodules",
        "git/hooks.md",
        "src/.gitkeep",
        "src/git~notes",
        "src/[...slug]/@types/+page.ts",
        "...x/a..b",
        "docs/a file.md",
        "docs/naïve/日本語/メモ。md",
        "docs/nai\u0308ve.md",
        "docs/ノ.md",
        "docs/½ cup.md",
        "src/~backup/x",
        "-rf",
        "$HOME/`id`/%2e%2e",
        "n" * values.SEGMENT_BYTES_MAX,
        "ü" * (values.SEGMENT_BYTES_MAX // 2),
        "/".join(["n" * 127] * 32),
        "❤\ufe0f.md",
        "ᠠ\u180b/한\u3164글.md",
        "console/conin/clock$s",
    ],
)
def test_a_plain_path_passes(path: str) -> None:
    assert SANDBOXED_PATH.broken(path) is None


@pytest.mark.parametrize(
    ("code", "paths"),
    {
        "too_long": ["n" * 256, "ü" * 128, "ab/" * 1_365 + "ab", "n" * 5_000],
        "escapes_sandbox": [
            "/etc/passwd", "//server/share", "..", "../x", "a/../..", "a/../b", "a/..",
            "~", "~/x", "~root/x",
        ],
        "empty_or_dot_segment": ["", ".", "./x", "a/.", "a/./b", "a//b", "a/"],
        "drive_or_url": [
            "C:/x", "c:x", "file:///etc/passwd", "https://example.invalid/x", "mailto:x",
            "git+ssh://x/y", ".git::$INDEX_ALLOCATION/config", "src/app.ts::$DATA",
        ],
        "backslash": ["..\\x", "a\\b", "\\\\server\\share", "a/\\"],
        "control_character": [
            "a\0b", "a\nb", "a\rb", "a\tb", "a\x1bb", "a\x7fb", "a\x85b", "a\x9fb",
            "a\u2028b", "a\u2029b", "a.ts\n",
        ],
        "inside_git": [
            ".git", ".git/config", "a/.git/hooks/x", ".GIT/x", ".Git", "a/.gIt", "git~1",
            "GIT~1/x", "git~2", ".git./x", ".git /x", ".git. ./x", "git~1 ", ".gıt/x", ".gİt",
        ],
        "device_name": [
            "src/NUL", "con", "a/aux.txt", "COM1", "lpt\u00b9/x", "prn .log",
            "CONIN$", "conout$.txt",
        ],
        "invisible_character": [
            ".g\u200cit/config", ".git\u200b", "a\u200db", "a\u202eb", "a\u2066b", "a\ufeffb",
            "a\u00adb", "a\U000e0041b", "\u206a.git", ".g\u034fit/config", ".git\ufe0f/x",
            "\u3164.git", "..\u034f/x", "a/\ufe00/b", "a/.\ufe0f", "nul\U000e0101", "git\uffa0~1",
        ],
        "padded_segment": [
            " a", "a ", "a/ b", "a /b", "a.", "a./b", "...", "\u00a0a", "a\u3000", "a\u2003/b",
        ],
        "look_alike": [
            "\uff0fetc", "a\uff0fb", "\uff0e\uff0e/x", "a/\u2024\u2024/b", "a/\u2025", "\u2024/x",
            "℅/x", "℀", "a\u2044b", "a\u2215b", "a\u29f8b", "a\u2571b", "a\uff3cb", "a\ufe68b",
            "a\u2216b", "a\u29f5b", "Ｃ：/x", "file：x", "～/x", "．git/x", ".ｇｉｔ/x", ".git．/x",
            "ｇｉｔ～１", ".gⁱt/x", ".ｇ\u034fit", "。。/x", "a/。/b", "\ua4f8\ua4f8", "\ua4fa/x",
        ],
        "not_utf8": ["a\ud800", "\udfff/x"],
    }.items(),
)  # fmt: skip
def test_a_hostile_path_breaks_its_rule(code: str, paths: list[str]) -> None:
    found = {path: SANDBOXED_PATH.broken(path) for path in paths}

    assert {path: rule.code for path, rule in found.items() if rule} == dict.fromkeys(paths, code)


def test_a_problem_says_what_is_expected_and_never_quotes_the_text() -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(SandboxedRelativePath).validate_python("../SECRET{code}")

    assert caught.value.errors(include_input=False) == [
        {
            "type": "escapes_sandbox",
            "loc": (),
            "msg": "a relative path below the working tree",
        }
    ]


@pytest.mark.parametrize("text", ["", "x" * 2_048, "é" * 1_024, "\0\n\u202e ../etc", "{limit}"])
def test_a_rationale_is_free_text_up_to_2048_bytes(text: str) -> None:
    assert codes(Rationale, text) == []


@pytest.mark.parametrize("text", ["x" * 2_049, "é" * 1_025, "😀" * 513])
def test_a_longer_rationale_is_refused_by_bytes(text: str) -> None:
    assert codes(Rationale, text) == ["too_long"]


@pytest.mark.parametrize(
    "text", ["lodash", "@types/node", "^1.2.3 || >=2 <3", "git+ssh://git@host/x.git", "x" * 2_048]
)
def test_an_argument_is_one_line_of_text(text: str) -> None:
    assert codes(Argument, text) == []


@pytest.mark.parametrize("text", ["", "-g", "--registry=http://example.invalid", "a\nb", "a\0"])
def test_what_a_command_may_misread_is_no_argument(text: str) -> None:
    assert codes(Argument, text) == ["not_an_argument"]


def test_nothing_is_coerced_to_text() -> None:
    assert codes(SandboxedRelativePath, 5) == ["string_type"]
    assert codes(Rationale, None) == ["string_type"]
    assert codes(Argument, b"lodash") == ["string_type"]


def test_the_schema_hints_at_the_limit_in_characters() -> None:
    assert TypeAdapter(Rationale).json_schema() == {"type": "string", "maxLength": 2_048}
    assert TypeAdapter(SandboxedRelativePath).json_schema() == {
        "type": "string",
        "maxLength": 4_096,
    }


PIECES = st.one_of(
    st.sampled_from(
        [".", "..", "/", "a", "src", ".git", "~", ":", "\\", " ", "．", "․", "／", "∕", "\u034f"]
    ),
    st.characters(),
)
PATHS = st.lists(PIECES, min_size=1, max_size=8).map("".join)


@pytest.mark.wide
@settings(deadline=None, max_examples=500)
@given(PATHS)
def test_an_accepted_path_stays_where_it_is_joined(path: str) -> None:
    if SANDBOXED_PATH.broken(path) is not None:
        return
    plain = unicodedata.normalize("NFKC", path.replace("\u034f", ""))
    for spelling in (path, plain, plain.casefold()):
        joined = posixpath.join(ROOT, spelling)
        assert posixpath.normpath(joined) == joined
        assert joined.startswith(ROOT + "/")
        assert not any(part.casefold() == ".git" for part in spelling.split("/"))


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_path_or_breaks_a_rule_that_does_not_quote_it(text: str) -> None:
    rule = SANDBOXED_PATH.broken(text)

    assert rule is None or len(text) < 9 or text not in rule.expected


@settings(deadline=None)
@given(st.lists(st.text(alphabet="abcxyzäß-_", min_size=1), min_size=1, max_size=6))
def test_ordinary_names_make_a_path(names: list[str]) -> None:
    assert SANDBOXED_PATH.broken("/".join(names)) is None
