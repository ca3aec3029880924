"""The page about metrics says what is declared."""

from pathlib import Path

from infra.metrics_page import PAGE, RULES, page

ROOT = Path(__file__).parents[2]


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    rules = (ROOT / RULES).read_text(encoding="utf-8")

    assert text == page(text, rules), "python -m infra.metrics_page writes them again"
    assert text.count("| `answerbus_") == text.count("\n| `answerbus_") > 20
