"""Questions for each contract that ships: for every subject, every way of asking."""

from collections.abc import Iterator
from itertools import product

from answerbus.request import Fact
from tests.model_survey.questions import Question, of_contract

_ADVISORIES = (
    ("package.json", "lodash", "4.17.20", "4.17.21"),
    ("web/package.json", "minimist", "1.2.5", "1.2.6"),
    ("requirements.txt", "urllib3", "1.26.4", "1.26.5"),
    ("services/api/pyproject.toml", "jinja2", "3.1.3", "3.1.4"),
    ("Cargo.toml", "time", "0.1.43", "0.2.23"),
    ("go.mod", "golang.org/x/net", "0.16.0", "0.17.0"),
)
_PLANS = (
    "Propose one `dep_bump` to the patched version. Be brief.",
    "Others depend on the package: propose one `override` that forces the patched version.",
    "The maintainers forbid every change: `refuse`, because of a policy. Be brief.",
    "Propose a `callsite_rewrite` of one file that stops using the package; a diff of one line.",
)
_ACTIONS = (
    "Call the tool `{0}` once, with a fitting argument.",
    "Think in one short sentence, then call the tool `{0}`.",
    "Answer the user in one short sentence: the tool `{0}` is not available.",
    "Call the tool `{0}` twice, with different arguments.",
)
_TOOLS = ("get_order", "search_files", "send_invoice", "read_sensor")
_PROPOSALS = (
    "The work on {0} is done. Say so briefly, with `complete` true and no actions.",
    "The work on {0} begins. Name one action with a tool of your choice and its parameters.",
    "The work on {0} goes on. Name two actions with different tools; keep the reasons short.",
    "Nothing is known about {0}. Ask for more in `message`, with `complete` false and no actions.",
)
_WORKS = ("the login page", "a failing test", "the invoice 4711", "an empty database")
_SELECTIONS = (
    "Which element does this: {0}? There are btn-pay, btn-cancel, field-name and link-help.",
    "Which element does this: {0}? There is only img-logo; say in `error` if none does.",
    "Pick the element for this: {0}. There are a1 (pay), a2 (help), a3 (search) and a4 (name).",
    "Pick the element for this: {0}. The page is empty, so give an `error`.",
)
_WISHES = ("pay now", "get help", "search for a book", "enter a name")
_OUTPUTS = (
    "Give {0} as `output`, with `success` true and no notes.",
    "Give {0} as `output`, with one short note on how sure you are.",
    "You cannot know {0}: `success` is false, with a short `failure_reason`.",
    "Give an object as `output` that holds {0} under a fitting name.",
)
_WANTED = ("the smallest prime above 10", "the capital of France", "three colours", "today's date")


def questions() -> Iterator[Question]:
    """All of them, in an order that never changes."""
    for number, (advisory, plan) in enumerate(product(_ADVISORIES, _PLANS)):
        yield of_contract("plan_proposal", number, plan, (_advisory(*advisory),))
    for name, forms, subjects in (
        ("agent_action", _ACTIONS, _TOOLS),
        ("proposal", _PROPOSALS, _WORKS),
        ("selection", _SELECTIONS, _WISHES),
        ("specialist", _OUTPUTS, _WANTED),
    ):
        for number, (subject, form) in enumerate(product(subjects, forms)):
            yield of_contract(name, number, form.format(subject), ())


def _advisory(manifest: str, package: str, version: str, patched: str) -> Fact:
    value = f"{manifest} declares {package} {version}, which is vulnerable; patched in {patched}"
    return Fact(name="advisory", value=value)
