"""Whether the id of a request is so new that no outcome can be there before it is published."""

import pytest

from answerbus.client.request_id import NEW_MS, RANDOM_BYTES, PublishedIds, uuid7
from answerbus.request_key import RequestKey

MADE_MS = 1_764_000_000_000
NEW_ID = str(uuid7(MADE_MS, b"\xff" * RANDOM_BYTES))


@pytest.mark.parametrize(
    ("request_id", "now_ms", "is_first"),
    [
        (NEW_ID, MADE_MS, True),
        (NEW_ID, MADE_MS + NEW_MS - 1, True),
        (NEW_ID, MADE_MS + NEW_MS, False),
        (NEW_ID, MADE_MS - 1, False),  # of a clock that is ahead
        ("551198a5-120a-467a-af6a-adcb2d91c556", MADE_MS, False),
        (str(uuid7(MADE_MS, bytes(RANDOM_BYTES))).replace("-7", "-1", 1), MADE_MS, False),
        ("order-4711", MADE_MS, False),
    ],
)
def test_only_a_uuid_of_the_last_seconds_was_asked_by_nobody_before(
    request_id: str, now_ms: int, is_first: bool
) -> None:
    assert PublishedIds().is_first(RequestKey("w", request_id), now_ms) == is_first


def test_an_id_that_was_published_here_is_not_the_first() -> None:
    published = PublishedIds()
    for name in (NEW_ID, "order-4711"):
        published.add(RequestKey("w", name))

    assert not published.is_first(RequestKey("w", NEW_ID), MADE_MS)
    assert published.is_first(RequestKey("another", NEW_ID), MADE_MS)
