"""The rows of docs/architecture.md are those of patches that still apply.

`python -m tests.changes` makes each change in a copy of the tree, and checks it.
"""

import subprocess

import pytest

from tests.changes.trials import ORDER, PAGE, ROOT, page, trial


def test_the_rows_on_the_page_are_those_of_the_patches() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert page(text) == text, "python -m tests.changes --rows"
    assert [trial(name).row in text for name in ORDER] == [True] * 10


def test_each_patch_is_a_trial() -> None:
    assert {path.stem for path in (ROOT / "tests/changes").glob("*.patch")} == {*ORDER}


@pytest.mark.parametrize("name", ORDER)
def test_a_change_still_applies_and_has_tests(name: str) -> None:
    tried = trial(name)
    command = ["git", "apply", "--check", str(tried.patch)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert [path for path in tried.changed if not (ROOT / path).is_file()] == []
    there = {*tried.new}  # tests that come with the change
    assert [path for path in tried.tests if path not in there and not (ROOT / path).exists()] == []
