"""Counts with their noun."""

from services.text.counted import count_text


def test_counts() -> None:
    assert [count_text(n, "letter") for n in (0, 1, 2_000)] == [
        "0 letters",
        "1 letter",
        "2,000 letters",
    ]
    assert count_text(2, "query", "queries") == "2 queries"
