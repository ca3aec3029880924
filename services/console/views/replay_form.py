"""The form of a bulk action on dead letters, as it was filled in; pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from services.operators.dead_letters.edit import Edits, edits_of
from services.operators.dead_letters.patch import EditFault
from services.operators.dead_letters.prepare_replay import BudgetOverride, ReplayOrder
from services.operators.records.money import micro_usd_of

FIELD_CHARS_MAX = 1_000
NUMBER_DIGITS_MAX = 12
FIELD_PREFIX = "new-"  # of the fields' names
_COUNTS = ("attempts", "tokens")


@dataclass(frozen=True, slots=True)
class ReplayForm:
    """Empty fields leave things as they are."""

    profile: str = ""
    attempts: str = ""
    tokens: str = ""
    usd: str = ""
    edit: str = ""
    reason: str = ""
    restart: bool = False
    force: bool = False


def replay_form_of(form: Mapping[str, object]) -> ReplayForm:
    """What the form says, in fields named `new-profile` and so on."""

    def text(name: str, most: int = FIELD_CHARS_MAX) -> str:
        return str(form.get(f"{FIELD_PREFIX}{name}", "")).strip()[:most]

    return ReplayForm(
        profile=text("profile"),
        attempts=text("attempts", NUMBER_DIGITS_MAX),
        tokens=text("tokens", NUMBER_DIGITS_MAX),
        usd=text("usd", NUMBER_DIGITS_MAX),
        edit=str(form.get(f"{FIELD_PREFIX}edit", "")).strip(),
        reason=text("reason"),
        restart=f"{FIELD_PREFIX}restart" in form,
        force=f"{FIELD_PREFIX}force" in form,
    )


def replay_order_of(replay_form: ReplayForm, by: str) -> ReplayOrder | EditFault:
    """The order in the form, or the problem of the form."""
    edits = edits_of(replay_form.edit.encode()) if replay_form.edit else Edits()
    if isinstance(edits, EditFault):
        return EditFault(f"The JSON Patch cannot be used: {edits.reason}.")
    numbers: dict[str, int | None] = {}
    for name in _COUNTS:
        given = getattr(replay_form, name)
        if given and not (given.isascii() and given.isdecimal()):
            return EditFault(f"The budget's {name} must be a whole number, not {given!r}.")
        numbers[name] = int(given) if given else None
    micro_usd = micro_usd_of(replay_form.usd) if replay_form.usd else None
    if replay_form.usd and micro_usd is None:
        return EditFault(f"The budget's dollars must be such as 0.25, not {replay_form.usd!r}.")
    return ReplayOrder(
        by=by,
        reason=replay_form.reason,
        edits=edits,
        profile=replay_form.profile or None,
        budget=BudgetOverride(**numbers, micro_usd=micro_usd),
        restart=replay_form.restart,
        force=replay_form.force,
    )
