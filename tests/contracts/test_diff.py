"""Unified diffs: which paths a diff names, and which rule it breaks otherwise."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from answerbus import limits
from answerbus.answers.unified_diff import UnifiedDiff, named_paths
from answerbus.values import SANDBOXED_PATH, Rule
from tests.cpu_time import cpu_time

HUNK = "@@ -1 +1 @@\n-a\n+b\n"
PLAIN = f"--- a/x.ts\n+++ b/x.ts\n{HUNK}"
GIT = f"diff --git a/x.ts b/x.ts\nindex 14521d4..baadb4d 100644\n{PLAIN}"


def git(old: str, new: str, extended: str = "", body: str | None = None) -> str:
    """One section, whose `---` and `+++` say the same as its first line unless `body` is given."""
    dashes = f"--- a/{old}\n+++ b/{new}\n{HUNK}" if body is None else body
    return f"diff --git a/{old} b/{new}\n{extended}{dashes}"


def moved(verb: str, old: str, new: str) -> str:
    return f"similarity index 95%\n{verb} from {old}\n{verb} to {new}\n"


def outcome(diff: str) -> str | set[str]:
    """The paths that a diff names, or the code of the rule that it breaks."""
    result = named_paths(diff)
    return result.code if isinstance(result, Rule) else set(result)


@pytest.mark.parametrize(
    ("diff", "paths"),
    {
        PLAIN: {"x.ts"},
        GIT: {"x.ts"},
        GIT + git("a/b.ts", "a/b.ts"): {"x.ts", "a/b.ts"},
        PLAIN + "@@ -9,2 +9,3 @@ def f(x):\n c\n+d\n e\n": {"x.ts"},
        f"--- a/x y\t\n+++ b/x y\t\n{HUNK}": {"x y"},
        f"--- a/x y\n+++ b/x y\n{HUNK}": {"x y"},
        f"--- a/x\t2026-01-01 00:00:00.5 +0000\n+++ b/x\t2026-01-01 00:00:01\n{HUNK}": {"x"},
        f"--- a/x\t(old)\n+++ b/x\tb/../y, as it was\n{HUNK}": {"x"},
        f"Index: x\n=====\n--- a/x\n+++ b/x\n{HUNK}": {"x"},
        "Index: x\n" + git("x", "x"): {"x"},
        git("x y b/x", "x y b/x"): {"x y b/x"},
        git("o", "n", moved("rename", "o", "n")): {"o", "n"},
        git("o p", "n q b/r", moved("copy", "o p", "n q b/r")): {"o p", "n q b/r"},
        git("o", "n", moved("rename", "o", "n"), "") + GIT: {"o", "n", "x.ts"},
        git("x", "x", "old mode 100644\nnew mode 100755\n"): {"x"},
        git("x", "x", "old mode 100755\nnew mode 100644\n", "") + GIT: {"x", "x.ts"},
        GIT + git("e f", "e f", "new file mode 100644\nindex 0000000..e69de29\n", ""): {
            "x.ts", "e f",
        },
    }.items(),
)  # fmt: skip
def test_a_diff_names_the_paths_of_all_its_headers(diff: str, paths: set[str]) -> None:
    assert outcome(diff) == paths


@pytest.mark.parametrize(
    "diff",
    [
        "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n",
        git("x", "x", "new file mode 100755\n", "--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+b\n"),
        "--- a/x\n+++ /dev/null\t1970-01-01 00:00:00\n@@ -1 +0,0 @@\n-b\n",
        git("x", "x", "deleted file mode 100644\n", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n"),
    ],
)
def test_a_file_may_be_created_or_deleted(diff: str) -> None:
    assert outcome(diff) == {"x"}


@pytest.mark.parametrize(
    ("quoted", "path"),
    {
        r"na\303\257ve.py": "naïve.py",
        r"\141\040b": "a b",
        'naïve \\"x\\".py': 'naïve "x".py',
        "plain": "plain",
    }.items(),
)
def test_a_quoted_name_is_decoded(quoted: str, path: str) -> None:
    dashes = f'--- "a/{quoted}"\n+++ "b/{quoted}"\n{HUNK}'

    assert outcome(dashes) == {path}
    assert outcome(f'diff --git "a/{quoted}" "b/{quoted}"\n{dashes}') == {path}
    assert outcome(f'diff --git a/{path} "b/{quoted}"\n{dashes}') == {path}
    assert outcome(f'diff --git "a/{quoted}" b/n\nrename from "{quoted}"\nrename to n\n' + GIT) == {
        path,
        "n",
        "x.ts",
    }


@pytest.mark.parametrize(
    "body",
    [
        "@@ -1,2 +1 @@\n c\n--- x\n",
        "@@ -1,2 +1,2 @@\n c\n--- a/../y\n+++ b/../y\n",
        "@@ -1 +1,2 @@\n-a\n+diff --git a/y b/y\n+GIT binary patch\n",
        "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n",
        "@@ -1,2 +1,2 @@\n\n-a\n+b\n",
        "@@ -1,2 +1,2 @@\n c\r\n-a\r\n+b\x0b\x1c\x85\u2028\u202e\x1b[31m\n",
        "@@ -0,0 +1 @@\n+b\n@@ -5,1 +6,0 @@ @@ -1 +1 @@\n-c\n",
        "@@ -0001,01 +1,1 @@\n-a\n+b\n",
    ],
)
def test_what_a_hunk_holds_is_content(body: str) -> None:
    assert outcome(f"--- a/x\n+++ b/x\n{body}") == {"x"}


@pytest.mark.parametrize(
    "body",
    [
        "@@ -1 +1 @@\n-a\n+b\n+c\n",
        "@@ -1 +1 @@\n-a\n+b\n c\n",
        "@@ -1,3 +1,3 @@\n-a\n+b\n",
        "@@ -1,50 +1,50 @@\n-a\n+b\n" + GIT,
        "@@ -1,2 +1 @@\n+b\n+c\n",
        "@@ -1,0 +1,0 @@\n",
        "@@ -1 +1 @@\n a\n",
        "@@ -1 +1 @@\n\\ No newline at end of file\n-a\n+b\n",
        "@@ -1 +1 @@\n-a\n+b\n" + "\\ No newline at end of file\n" * 2,
        "@@ -1 +1 @@\n-a\n\\ ../../etc\n+b\n",
        "@@ -1 +1 @@\n-a\n*b\n",
        "@@ -1 +1\n-a\n+b\n",
        "@@ -1 +1 @@x\n-a\n+b\n",
        "@@ -1 +1 @@\r\n-a\n+b\n",
        "@@ -١ +1 @@\n-a\n+b\n",
        "@@ -1,１ +1 @@\n-a\n+b\n",
        "@@ --1 +1 @@\n-a\n+b\n",
        "@@ -1,99999999999999999999 +1 @@\n-a\n+b\n",
        "@@ -1," + "9" * 5_000 + " +1 @@\n-a\n+b\n",
    ],
)
def test_a_hunk_is_exactly_as_its_header_says(body: str) -> None:
    assert outcome(f"--- a/x\n+++ b/x\n{body}") == "bad_hunk"


@pytest.mark.parametrize(
    "diff",
    [
        "rm -rf / --no-preserve-root",
        "rm -rf /\n",
        f"Here it is:\n{GIT}",
        f"{GIT}Done.\n",
        f"{GIT}\n{GIT}",
        f"```diff\n{GIT}```\n",
        f"\ufeff{GIT}",
        f"\n{GIT}",
        GIT.rstrip("\n"),
        HUNK,
        "--- a/x\n+++ b/x\n",
        f"--- a/x\n{HUNK}",
        f"+++ b/x\n--- a/x\n{HUNK}",
        f"--- a/x\n--- a/x\n+++ b/x\n{HUNK}",
        "*** a/x\n--- b/x\n***************\n*** 1 ****\n! a\n--- 1 ----\n! b\n",
        "1c\nb\n.\n",
        "diff --git a/x b/x\n",
        f"diff --git a/x b/x\n{HUNK}",
        "diff --cc x\nindex 1,2..3\n--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n- a\n -b\n++c\n",
        f"diff --combined x\n{PLAIN}",
        "--- a/x\n+++ b/x\n@@@ -1 -1 +1 @@@\n- a\n -b\n++c\n",
        f"diff -ruN a/x b/x\n{PLAIN}",
        f"=====\n{PLAIN}",
        f"Only in a: y\n{PLAIN}",
        git("x", "x", "rename old x\nrename new y\n"),
        git("x", "x", "rename from x\n"),
        git("o", "n", "rename from o\ncopy to n\n"),
        git("o", "n", moved("rename", "o", "n") + "rename to n\n"),
        f"Index: x\nrename from x\nrename to x\n--- a/x\n+++ b/x\n{HUNK}",
        f'--- "a/x"y\n+++ "b/x"y\n{HUNK}',
        f'--- "a/x\n+++ "b/x\n{HUNK}',
        f'--- "a/\\x41"\n+++ "b/\\x41"\n{HUNK}',
        f'--- "a/\\377"\n+++ "b/\\377"\n{HUNK}',
        f'--- "a/\\777"\n+++ "b/\\777"\n{HUNK}',
        f"--- a/x\tevil 2026-01-01 00:00:00\n+++ b/x\tevil 2026-01-01 00:00:00\n{HUNK}",
        git("x", "y", moved("rename", "x\ty", "y"), ""),
    ],
)
def test_only_a_unified_diff_will_do(diff: str) -> None:
    assert outcome(diff) == "not_a_unified_diff"


@pytest.mark.parametrize("name", ["../x", "x/../../y", "/etc/passwd", "~/x"])
@pytest.mark.parametrize(
    "template",
    [
        "--- a/{}\n+++ b/x.ts\n" + HUNK,
        "--- a/x.ts\n+++ b/{}\n" + HUNK,
        "--- a/x.ts\n+++ b/{}\t2026-01-01 00:00:00\n" + HUNK,
        GIT + "--- a/{}\n+++ b/{}\n" + HUNK,
        "Index: {}\n" + PLAIN,
        git("x.ts", "x.ts", "rename from x.ts\nrename to {}\n"),
        git("x.ts", "x.ts", "copy from {}\ncopy to x.ts\n"),
        GIT + git("{}", "{}", "new file mode 100644\n", ""),
    ],
)
def test_each_name_follows_the_rules_of_paths(name: str, template: str) -> None:
    assert outcome(template.replace("{}", name)) == "escapes_sandbox"


def test_the_rules_of_paths_look_through_quotes_and_carriage_returns() -> None:
    dots = f'--- "a/x"\n+++ "b/\\056\\056/\\056\\056/etc/passwd"\n{HUNK}'
    hook = f'--- "a/\\056git/config"\n+++ "b/\\056git/config"\n{HUNK}'
    line = f'--- "a/x\\ny"\n+++ "b/x\\ny"\n{HUNK}'
    slash = f'--- "a/\\057etc"\n+++ "b/\\057etc"\n{HUNK}'

    assert [outcome(diff) for diff in (dots, hook, line, slash)] == [
        "escapes_sandbox",
        "inside_git",
        "control_character",
        "escapes_sandbox",
    ]
    assert outcome(PLAIN.replace("\n", "\r\n")) == "bad_hunk"
    assert outcome(f"--- a/x\r\n+++ b/x\r\n{HUNK}") == "control_character"
    # `git apply` would cut the date off the name.
    assert outcome(f"--- a/x 2026-01-01 00:00:00\n+++ b/x 2026-01-01 00:00:00\n{HUNK}") == (
        "drive_or_url"
    )


@pytest.mark.parametrize(
    "dashes",
    ["--- x\n+++ x\n", "--- /etc/x\n+++ b/x\n", "--- b/x\n+++ a/x\n", '--- "/dev/null"\n+++ b/x\n'],
)
def test_old_names_begin_with_a_and_new_names_with_b(dashes: str) -> None:
    assert outcome(dashes + HUNK) == "missing_prefix"


@pytest.mark.parametrize(
    "diff",
    [
        f"--- a/x\n+++ b/y\n{HUNK}",
        git("x", "y"),
        git("x", "x", body=f"--- a/y\n+++ b/y\n{HUNK}"),
        git("x", "y", body=f"--- a/x\n+++ b/x\n{HUNK}"),
        git("x", "x b/x", body=f"--- a/x\n+++ b/x\n{HUNK}"),
        f'diff --git "a/x" "b/\\171"\n--- a/x\n+++ b/x\n{HUNK}',
        git("x", "y", moved("rename", "x", "z")),
        git("x", "x", moved("rename", "x", "y")),
        git("o", "n", moved("rename", "o", "n") + moved("copy", "p", "n").split("\n", 1)[1]),
        f"Index: y\n--- a/x\n+++ b/x\n{HUNK}",
        f"Index: a/x\n--- a/x\n+++ b/x\n{HUNK}",
        f"--- /dev/null\n+++ /dev/null\n{HUNK}",
        git("x", "x", body=f"--- /dev/null\n+++ /dev/null\n{HUNK}"),
        git("x", "x", "new file mode 100644\ndeleted file mode 100644\n", ""),
        git("x", "x", "new file mode 100644\n"),
        git("x", "x", "deleted file mode 100644\n"),
        git("x", "x", body="--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        git("x", "x", "new file mode 100644\n", "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
        git("o", "n", "new file mode 100644\n" + moved("rename", "o", "n"), ""),
        GIT.replace("diff --git a/x.ts b/x.ts", "diff --git a/x.ts b/x.ts\r"),
        GIT.replace("diff --git a/x.ts b/x.ts", "diff --git x.ts x.ts"),
        GIT.replace("diff --git a/x.ts b/x.ts", "diff --git a/x.ts\tb/x.ts"),
    ],
)
def test_the_headers_of_a_section_agree(diff: str) -> None:
    assert outcome(diff) == "headers_disagree"


@pytest.mark.parametrize("mode", ["120000", "160000", "040000", "100666", "0100644", "100644 "])
@pytest.mark.parametrize(
    "header",
    ["old mode {}", "new mode {}", "new file mode {}", "deleted file mode {}", "index a1..b2 {}"],
)
def test_only_regular_files_may_change(header: str, mode: str) -> None:
    assert outcome(git("x", "x", header.format(mode) + "\n")) == "unsafe_mode"
    assert outcome(GIT + git("x", "x", header.format(mode) + "\n", "")) == "unsafe_mode"


@pytest.mark.parametrize(
    "diff",
    [
        git("x", "x", "index 1..2 100644\n", "GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\n"),
        git("o", "n", moved("rename", "o", "n"), "GIT binary patch\nliteral 0\nHcmV?d00001\n\n"),
        git("x", "x", "index 1..2 100644\n", "Binary files a/x and b/x differ\n"),
        GIT + "Binary files a/x and b/x differ\n",
        GIT.replace("+b", "+\0"),
    ],
)
def test_binary_content_is_refused(diff: str) -> None:
    assert outcome(diff) == "binary_diff"


def test_a_diff_has_a_hunk() -> None:
    assert outcome("") == "no_hunk"
    assert outcome(git("x", "x", "old mode 100644\nnew mode 100755\n", "")) == "no_hunk"
    assert outcome(git("o", "n", moved("rename", "o", "n"), "")) == "no_hunk"


def test_a_diff_is_bounded_in_bytes() -> None:
    room = limits.DIFF_BYTES_MAX - len(PLAIN)
    fits = PLAIN.replace("+b", "+b" + "é" * (room // 2) + "x" * (room % 2))

    assert outcome(fits) == {"x.ts"}
    assert outcome(fits.replace("+b", "+bb")) == "too_long"
    assert outcome(PLAIN.replace("+b", "+\ud800")) == "not_utf8"


def test_the_type_raises_the_rule_and_returns_the_text() -> None:
    adapter: TypeAdapter[str] = TypeAdapter(UnifiedDiff)

    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(f"{GIT}SECRET")

    assert adapter.validate_python(GIT) == GIT
    assert [found["type"] for found in caught.value.errors()] == ["not_a_unified_diff"]
    assert "SECRET" not in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize(
    "unit",
    ["--- a/x\n+++ b/x\n", GIT, "diff --git a/x b/x\n", HUNK, '--- "a/\\', "\\", '"', " ", "\n",
     "\t9", "@@ -1,9 +1,9 @@\n", "rename from x\n", "=", "a/x b/", "\u0344", "Index: x\n", "é"],
)  # fmt: skip
@pytest.mark.parametrize("opening", ["", "diff --git a/", '--- "a/', "--- a/x\t", PLAIN, "Index: "])
def test_64_kib_of_hostile_text_take_linear_time(opening: str, unit: str) -> None:
    size = limits.DIFF_BYTES_MAX - len(opening.encode())
    text = opening + unit * (size // len(unit.encode()))

    with cpu_time() as cpu:
        named_paths(text)

    assert cpu.is_below(1.0)  # more than ten times what it takes


NAMES = st.lists(
    st.text(alphabet='abÄ語 "-+@', min_size=1, max_size=5).map(str.strip).filter(bool),
    min_size=1,
    max_size=3,
).map("/".join)
CONTENT = st.text(alphabet="a-+@ \\\r\u2028", max_size=6)


def quote(name: str) -> str:
    """A name as git quotes it."""
    octal = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in name.encode()
    )
    return f'"{octal}"' if "\\" in octal else name


@pytest.mark.wide
@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, st.lists(CONTENT), st.lists(CONTENT, min_size=1)), min_size=1))
def test_every_well_formed_diff_is_read(files: list[tuple[str, list[str], list[str]]]) -> None:
    sections = [
        f"diff --git {quote('a/' + name)} {quote('b/' + name)}\n"
        f"--- {quote('a/' + name)}\t\n+++ {quote('b/' + name)}\n"
        f"@@ -1,{len(old)} +1,{len(new)} @@\n"
        + "".join(f"-{line}\n" for line in old)
        + "".join(f"+{line}\n" for line in new)
        for name, old, new in files
    ]

    assert outcome("".join(sections)) == {name for name, _, _ in files}


LINES = st.sampled_from(
    [*GIT.splitlines(), "--- /dev/null", "+++ b/../y", "rename to y", "new file mode 100644",
     'diff --git "a/\\x" b/y', "Index: y", "\\ No newline at end of file", "", " c",
     "@@ -0,0 +1 @@"]
)  # fmt: skip


@pytest.mark.wide
@settings(deadline=None, max_examples=300)
@given(st.one_of(st.text(), st.lists(st.one_of(LINES, st.text()), max_size=12).map("\n".join)))
def test_any_text_names_sandboxed_paths_or_breaks_a_rule(text: str) -> None:
    for diff in (text, text + "\n", GIT + text + "\n"):
        paths = named_paths(diff)
        assert isinstance(paths, Rule) or (
            paths and all(SANDBOXED_PATH.broken(path) is None for path in paths)
        )
