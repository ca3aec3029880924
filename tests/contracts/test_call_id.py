"""Ids of tool calls: no two requests share one, and what runs of before have is still read."""

from hypothesis import example, given
from hypothesis import strategies as st

from answerbus.call_id import attempt_of_call, call_id, call_name, request_of_call
from answerbus.limits import (
    ATTEMPTS_MAX,
    CALL_ID_CHARS_MAX,
    REQUEST_ID_CHARS_MAX,
    STEP_ACTIONS_MAX,
    WORKFLOW_ID_CHARS_MAX,
)
from answerbus.request_key import RequestKey

ID_CHARS = "ab.:-@/\u00e9\U0001f600call10"
WORKFLOWS = st.text(ID_CHARS, min_size=1, max_size=8)
REQUESTS = st.from_regex(r"[ab.:\-]{1,6}(\.call\.1\.0)?", fullmatch=True)
PARTS = st.tuples(
    st.builds(RequestKey, WORKFLOWS, REQUESTS), st.integers(1, 12), st.integers(0, 12)
)


@given(PARTS, PARTS)
@example((RequestKey("a", "bc"), 1, 0), (RequestKey("ab", "c"), 1, 0))
@example((RequestKey("a.b", "c"), 1, 0), (RequestKey("a", "b.c"), 1, 0))
@example((RequestKey("w", "r"), 1, 0), (RequestKey("v", "r"), 1, 0))
@example((RequestKey("1:a", "b"), 1, 0), (RequestKey("1", ":ab"), 1, 0))
def test_two_calls_never_have_one_id(
    one: tuple[RequestKey, int, int], other: tuple[RequestKey, int, int]
) -> None:
    assert (call_id(*one) == call_id(*other)) == (one == other)
    assert (one[0].mark == other[0].mark) == (one[0] == other[0])
    assert (one[0].record_key() == other[0].record_key()) == (one[0] == other[0])


@given(PARTS)
def test_an_id_says_its_request_and_its_attempt(parts: tuple[RequestKey, int, int]) -> None:
    request, attempt, place = parts
    name = f"{request.request_id}.call.{attempt}.{place}"

    for found in (call_id(*parts), name):  # as it is now, and as runs of before have it
        assert request_of_call(found) == request.request_id
        assert attempt_of_call(found) == attempt
        assert call_name(found) == name


def test_the_longest_fits() -> None:
    longest = RequestKey("w" * WORKFLOW_ID_CHARS_MAX, "r" * REQUEST_ID_CHARS_MAX)
    assert len(call_id(longest, ATTEMPTS_MAX, STEP_ACTIONS_MAX)) <= CALL_ID_CHARS_MAX


def test_what_no_run_has_called_is_left_as_it_is() -> None:
    for by_hand in ("check.first", "", ".call.", "r.call.x.0"):
        assert call_name(by_hand) == by_hand
        assert attempt_of_call(by_hand) is None
