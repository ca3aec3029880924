"""The table of docs/conformance.md: each provider that ships, by the kit for plug-ins.

`python -m tests.providers.conformance_table` writes it again.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from services.commands.providers.conformance import CHECKS
from services.commands.providers.running import checked_in_time
from services.worker.adapters.providers.kinds.known import SHIPPED, Kind
from services.worker.adapters.providers.kinds.openai import OpenAIKind

PAGE = Path(__file__).parents[2] / "docs/conformance.md"
BEGIN = "<!-- written by tests.providers.conformance_table -->\n"


class ResponsesKind(OpenAIKind):
    """OpenAI's other API."""

    example = {"api": "responses"}


def kinds() -> dict[str, tuple[str, Kind]]:
    """A column each: the provider's name in settings, and its object."""
    shipped = {name: (name, kind) for name, kind in SHIPPED.items()}
    return {"openai": shipped.pop("openai"), "responses": ("openai", ResponsesKind())} | shipped


def table() -> str:
    """What is demanded in each check, and a row for each provider."""
    demanded = [(name, (tried.__doc__ or "").strip(". ")) for name, tried in CHECKS.items()]
    demanded.append(("secrets", "Nothing that it logs or prints holds the key"))
    rows = [
        [title, *(one.fault or "holds" for one in checked_in_time(name, kind))]
        for title, (name, kind) in kinds().items()
    ]
    head = ["provider", *(name for name, _ in demanded)]
    return f"{_written(['check', 'what is demanded'], demanded)}\n{_written(head, rows)}"


def _written(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page[: page.index(BEGIN)] + BEGIN + table(), encoding="utf-8")
