"""The contract `selection` v1: one of the elements that a context names, or a reason for none."""

from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from answerbus.contract import Closed, Contract
from answerbus.values import Detail

ELEMENT_ID_CHARS_MAX = 2_048


class Selected(Closed):
    """One element fits."""

    element_id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=ELEMENT_ID_CHARS_MAX,
            description="The id of the element that fits, letter by letter as it was given.",
        ),
    ]
    error: Annotated[None, Field(description="Nothing, since an element fits.")] = None


class NothingSelected(Closed):
    """No element fits, or more than one does."""

    element_id: Annotated[None, Field(description="Nothing, since no element fits.")] = None
    error: Annotated[
        Detail, Field(min_length=1, description="Why there is no such element: at most 2 KiB.")
    ]


def _case(value: Any) -> str:
    """The case that an answer means, so that problems are named for that one alone."""
    error = value.get("error") if isinstance(value, dict) else getattr(value, "error", None)
    return "selected" if error is None else "nothing_selected"


Selection = Annotated[
    Annotated[Selected, Tag("selected")] | Annotated[NothingSelected, Tag("nothing_selected")],
    Discriminator(_case),
]

SELECTION: Contract[Selection] = Contract(
    name="selection",
    version=1,
    answer=Selection,
    asked=Selection,
    summary="The id of the one element that fits, or why there is none.",
    examples=(
        {"element_id": "btn-pay-now", "error": None},
        {"element_id": None, "error": "No element pays."},
    ),
)
