"""Repeats among lines: pairs of attempt and retry, and single lines."""

import pytest

from services.operators.timeline.folding import LEAST, Fold, folds, without_numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("ab", [Fold(0, 1, 1), Fold(1, 1, 1)]),
        ("aab", [Fold(0, 1, 1), Fold(1, 1, 1), Fold(2, 1, 1)]),
        ("aaaab", [Fold(0, 1, 4), Fold(4, 1, 1)]),
        ("qababababc", [Fold(0, 1, 1), Fold(1, 2, 4), Fold(9, 1, 1)]),
        ("abab", [Fold(0, 1, 1), Fold(1, 1, 1), Fold(2, 1, 1), Fold(3, 1, 1)]),
    ],
)
def test_lines_that_come_again_are_one(text: str, expected: list[Fold]) -> None:
    assert folds(text) == expected


@pytest.mark.parametrize("text", ["abcabcabc", "aabbaabb" * 5, "a" * 999])
def test_every_line_is_in_one_fold(text: str) -> None:
    found = folds(text)

    assert found[0].start == 0
    assert [fold.end for fold in found[:-1]] == [fold.start for fold in found[1:]]
    assert found[-1].end == len(text)
    assert all(fold.count == 1 or fold.count >= LEAST for fold in found)


def test_numbers_do_not_tell_lines_apart() -> None:
    assert without_numbers("attempt 2 at 10:00:03, since 9.5 s") == without_numbers(
        "attempt 11 at 10:07:33, since 120 s"
    )
