"""The common options of the commands of `answerbus replay`."""

import re
import time
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, get_args

import typer

from answerbus.cause import Cause
from answerbus.failure import Failure
from services.command_line import content_of
from services.commands.time_option import time_option
from services.operators.adapters.profile_costs import profile_costs
from services.operators.dead_letters.edit import Edits, edits_of
from services.operators.dead_letters.forecast import KnownNames
from services.operators.dead_letters.groups import KEYS, Key, key_of
from services.operators.dead_letters.patch import EditFault
from services.operators.dead_letters.prepare_replay import BudgetOverride
from services.operators.dead_letters.row import STATUSES, Status
from services.operators.dead_letters.selection import Selection
from services.operators.records.money import micro_usd_of
from services.settings import plugins
from services.settings.settings import Settings

KEYS_HELP = f"{', '.join(KEYS)} or label:NAME"
_AMOUNT = re.compile(r"\d{1,15}")
_CLOSED: Mapping[str, Any] = MappingProxyType({"cause": Cause, "failure": Failure})

_Texts = list[str] | None
Where = Annotated[
    _Texts,
    typer.Option(
        "--where",
        metavar="KEY=VALUE",
        help=f"Dead letters whose KEY is VALUE, empty for none; repeatable. KEY: {KEYS_HELP}.",
    ),
]
Ids = Annotated[
    _Texts,
    typer.Option("--id", metavar="ID", help="This dead letter, also as ID@WORKFLOW; repeatable."),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Died then or later: 2h, 3d, RFC 3339."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Died before then.")]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="At most so many, the oldest first.")
]
Statuses = Annotated[
    _Texts,
    typer.Option(
        "--status",
        help=f"One of {', '.join(STATUSES)}; repeatable. Default: open.",
        autocompletion=lambda: STATUSES,
    ),
]
Edit = Annotated[
    str | None,
    typer.Option(
        "--edit",
        metavar="FILE|JSON",
        help="JSON Patch of each request, or an object of patches by ID or ID@WORKFLOW.",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="N|KEY=N,…", help="Of each replay: attempts, tokens, usd (dollars)."
    ),
]
Profile = Annotated[str | None, typer.Option("--profile", help="Ask this profile instead.")]
Fresh = Annotated[
    bool, typer.Option("--fresh", help="Do not show the model the results of earlier attempts.")
]
Restart = Annotated[
    bool,
    typer.Option(
        "--restart", help="Start runs over: their tools are called again, also those with effects."
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Also what will probably fail again, and what was replayed 5 times."
    ),
]


def selection_of(
    where: Sequence[str] | None = None,
    ids: Sequence[str] | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int | None = None,
    status: Sequence[str] | None = None,
) -> Selection:
    """The dead letters that the options mean. Raises typer.BadParameter."""
    now_ms = int(time.time() * 1000)
    since_ms, until_ms = (
        None if text is None else time_option(text, now_ms) for text in (since, until)
    )
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise typer.BadParameter("--since is later than --until: nothing died between them.")
    return Selection(
        where=tuple(map(_condition, where or ())),
        ids=frozenset(ids or ()),
        since_ms=since_ms,
        until_ms=until_ms,
        statuses=frozenset(map(_status, status)) if status else frozenset({"open"}),
        limit=limit,
    )


def keys_of(texts: Sequence[str]) -> list[Key]:
    """Keys of groups. Raises typer.BadParameter."""
    return [_key(text) for text in texts]


def edits_from(given: str | None) -> Edits:
    """The edits in a file, or in the text itself. Raises typer.BadParameter."""
    if given is None:
        return Edits()
    found = edits_of(
        given.encode() if given.lstrip()[:1] in ("[", "{") else content_of(Path(given))
    )
    if isinstance(found, EditFault):
        raise typer.BadParameter(f"--edit: {found.reason}.")
    return found


def allowance_of(given: str | None) -> BudgetOverride:
    """`5`, or `attempts=5,tokens=20000,usd=0.10`. Raises typer.BadParameter.

    `micro_usd=100000`, in millionths of a dollar, is the same as `usd=0.10`.
    """
    amounts: dict[str, int] = {}
    for part in (given or "").split(",") if given else ():
        name, equals, text = part.strip().rpartition("=")
        name = name if equals else "attempts"
        if name in ("attempts", "tokens", "micro_usd") and _AMOUNT.fullmatch(text):
            amounts[name] = int(text)
        elif name == "usd" and (micro_usd := micro_usd_of(text)) is not None:
            amounts["micro_usd"] = micro_usd
        else:
            raise typer.BadParameter(f"--budget: {part!r} is not such as attempts=5 or usd=0.10.")
    return BudgetOverride(**amounts)


def known_of(settings: Settings) -> KnownNames:
    """The workers as these settings describe them. Raises SetUpError."""
    cost_of = profile_costs(settings.profiles, time.time())
    return KnownNames(frozenset(settings.profiles) or None, plugins.registry(), cost_of)


def _condition(text: str) -> tuple[Key, str | None]:
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"--where: {text!r} is not KEY=VALUE.")
    key = _key(name)
    if value and key.kind in _CLOSED:
        _check_word(key.kind, value)
    return key, value or None


def _check_word(key: str, value: str) -> None:
    known = _kinds(_CLOSED[key])
    if value in known:
        return
    close = get_close_matches(value, known, n=1)
    meant = f" Did you mean {close[0]}?" if close else f" Known: {', '.join(known)}."
    raise typer.BadParameter(f"--where: there is no {key} {value!r}.{meant}")


def _kinds(union: Any) -> list[str]:
    """The tags of a closed union."""
    return [member.model_fields["kind"].default for member in get_args(get_args(union)[0])]


def _key(text: str) -> Key:
    key = key_of(text)
    if key is None:
        raise typer.BadParameter(f"{text!r} is none of {KEYS_HELP}.")
    return key


def _status(text: str) -> Status:
    if text not in STATUSES:
        raise typer.BadParameter(f"--status: {text!r} is none of {', '.join(STATUSES)}.")
    return text
