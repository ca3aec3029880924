"""What was shown before changes nothing in what is shown: it is only not made again."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answerbus.request import Message, Request
from services.worker.core.attempt.prompt import build
from services.worker.core.attempt.turns import Shown, shown
from tests.unit.worker.builders import request, wire

SECRET = b"s"
UNSEEN = shown(request(), b"")
TEXTS = ["", " ", "a", "ü" * 3, "0123456789abcdef" * 2, "</data>"]
MESSAGES = st.builds(
    Message,
    role=st.sampled_from(["user", "assistant"]),
    content=st.sampled_from(TEXTS),
    trust=st.sampled_from(["trusted", "untrusted"]),
)


def asked(messages: list[Message], facts: int = 1) -> Request:
    data = [{"name": f"f{n}", "value": {"n": n}} for n in range(facts)]
    plain = request(context={"instructions": "Do it.", "facts": data})
    context = plain.context.model_copy(update={"messages": tuple(messages)})
    return plain.model_copy(update={"context": context})


def same(one: Shown, other: Shown) -> bool:
    """Fences are compared by what they refuse to use."""
    assert one.fence.secret == other.fence.secret
    return replace(one, fence=other.fence) == other


def echoing(messages: list[Message], before: Shown) -> list[Message]:
    """The author of the last message has seen all marks of before."""
    *rest, last = messages
    content = " ".join([last.content, *sorted(before.marks)])
    return [*rest, last.model_copy(update={"content": content})]


@pytest.mark.wide
@settings(max_examples=200, deadline=None)
@given(
    steps=st.lists(st.lists(MESSAGES, max_size=3), max_size=5),
    is_echoed=st.booleans(),
    changed=st.integers(0, 5),
)
def test_a_conversation_that_grows_is_shown_as_one_that_is_there_at_once(
    steps: list[list[Message]], is_echoed: bool, changed: int
) -> None:
    """Also where a text repeats marks, and where an old message is another one by now."""
    messages, before = list[Message](), UNSEEN
    for number, more in enumerate(steps):
        messages = [*messages, *more]
        if number == changed and messages:
            messages[0] = Message(role="user", content="shortened")
        if is_echoed and messages:
            messages = echoing(messages, before)
        at_once = shown(asked(messages), SECRET)
        before = shown(asked(messages), SECRET, before)

        assert same(before, at_once)
        prompts = [
            build(asked(messages), wire(), (), 100, secret=SECRET, known=known)
            for known in (before, at_once, None)
        ]
        assert prompts[0] == prompts[1] == prompts[2]
        assert len({prompt.digest for prompt in prompts}) == 1
        assert len({prompt.tokens_max for prompt in prompts}) == 1


@pytest.mark.parametrize(("facts", "secret"), [(2, SECRET), (1, b"another")])
def test_what_another_request_or_secret_begins_with_is_not_taken_over(
    facts: int, secret: bytes
) -> None:
    messages = [Message(role="user", content="a")]
    before = shown(asked(messages), SECRET)

    assert same(
        shown(asked(messages, facts), secret, before), shown(asked(messages, facts), secret)
    )


def test_what_was_shown_is_the_same_object_in_the_next_prompt() -> None:
    """Else nothing is saved."""
    first = [Message(role="user", content="a"), Message(role="assistant", content="b")]
    before = shown(asked(first), SECRET)
    after = shown(asked([*first, Message(role="user", content="c")]), SECRET, before)

    assert [*map(id, after.turns[:2])] == [*map(id, before.turns)]
    assert after.digests is before.digests
