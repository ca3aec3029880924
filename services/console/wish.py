"""The form for what is to be done with letters, as it was filled in; pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.letters.edit import Edits, edits_of
from services.letters.money import micro_usd_of
from services.letters.patch import EditFault
from services.letters.revive import Allowance, Order

FIELD_CHARS_MAX = 1_000
NUMBER_DIGITS_MAX = 12
_COUNTS = ("attempts", "tokens")


@dataclass(frozen=True, slots=True)
class Wish:
    """Empty fields leave things as they are."""

    profile: str = ""
    attempts: str = ""
    tokens: str = ""
    usd: str = ""
    edit: str = ""
    reason: str = ""
    force: bool = False


def wish_of(form: Mapping[str, object]) -> Wish:
    """What the form says, in fields named `new-profile` and so on."""

    def text(name: str, most: int = FIELD_CHARS_MAX) -> str:
        return str(form.get(f"new-{name}", "")).strip()[:most]

    return Wish(
        profile=text("profile"),
        attempts=text("attempts", NUMBER_DIGITS_MAX),
        tokens=text("tokens", NUMBER_DIGITS_MAX),
        usd=text("usd", NUMBER_DIGITS_MAX),
        edit=str(form.get("new-edit", "")).strip(),
        reason=text("reason"),
        force="new-force" in form,
    )


def order_of(wish: Wish, by: str) -> Order | EditFault:
    """What is to be done, or what is wrong with the form."""
    edits = edits_of(wish.edit.encode()) if wish.edit else Edits()
    if isinstance(edits, EditFault):
        return EditFault(f"The JSON Patch cannot be used: {edits.reason}.")
    numbers: dict[str, int | None] = {}
    for name in _COUNTS:
        given = getattr(wish, name)
        if given and not (given.isascii() and given.isdecimal()):
            return EditFault(f"The budget's {name} must be a whole number, not {given!r}.")
        numbers[name] = int(given) if given else None
    micro_usd = micro_usd_of(wish.usd) if wish.usd else None
    if wish.usd and micro_usd is None:
        return EditFault(f"The budget's dollars must be such as 0.25, not {wish.usd!r}.")
    return Order(
        by=by,
        reason=wish.reason,
        edits=edits,
        profile=wish.profile or None,
        budget=Allowance(**numbers, micro_usd=micro_usd),
        force=wish.force,
    )
