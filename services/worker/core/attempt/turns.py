"""The turns of a prompt: what a model is shown of a request, with marks around text from outside.

A fence puts marks around text from outside, so that a model sees where it begins and ends. A mark
is derived from its piece and a secret of the deployment: a piece looks the same in every prompt,
and its author cannot know its mark.

A run is shown its whole past in each step: what was shown before is the beginning of what is shown
next, and is not made again.
"""

import hmac
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from answerbus.request import Fact, InlineRef, Message, Request
from services.worker.core.attempt.prompt_digest import PromptDigest
from services.worker.core.attempt.turn import Role, Turn
from services.worker.core.guard.shown_value import shown_value

MARK_CHARS = 12  # hexadecimal digits
_BLOCK_CHARS = MARK_CHARS // 2  # cut into these, a text has a whole one of any mark that is in it
_SEARCHES_MAX = 8  # for more marks than these, texts are cut into blocks first
_DIGITS = b"0123456789abcdef"
_DIGIT_OR_NOT = bytes(ord("x" if byte in _DIGITS else " ") for byte in range(256))
_LIKE_A_MARK = b"x" * MARK_CHARS

_OPENING = "This is the conversation so far."
_ENDING = "Answer now."


@dataclass(frozen=True, slots=True)
class Fence:
    """Makes marks that occur in none of the texts which it was made for."""

    secret: bytes
    _texts: tuple[str, ...] = ()  # all that could have a mark in it
    _blocks: frozenset[str] | None = None  # of these texts, where many marks are made

    def around(self, texts: Iterable[str], marks: int) -> "Fence":
        """A fence for these texts, too, that is about to make so many marks."""
        known = (*self._texts, *filter(_may_have_a_mark, texts))
        return Fence(self.secret, known, _blocks_of(known) if marks > _SEARCHES_MAX else None)

    def put(self, label: str, text: str) -> str:
        """`label` is one of ours, never a text from outside."""
        return self.put_with(self.mark(label, text), label, text)

    @staticmethod
    def put_with(mark: str, label: str, text: str) -> str:
        """With a mark that it has made."""
        return f"<data {mark} {label}>\n{text}\n</data {mark}>"

    def mark(self, label: str, text: str) -> str:
        """The mark of a text under its label."""
        piece = f"{label}\0{text}"
        mark = self._derived(piece)
        # By chance, or because the author has seen an answer that repeats a mark.
        while mark in text or self.has(mark):
            mark = self._derived(f"{mark}\0{piece}")
        return mark

    def has(self, mark: str) -> bool:
        """Whether it occurs in the texts.

        There may be thousands of marks, so that not each text is searched for each of them.
        """
        starts = range(_BLOCK_CHARS + 1)
        blocks = self._blocks
        if blocks is not None and not any(mark[at : at + _BLOCK_CHARS] in blocks for at in starts):
            return False
        return any(mark in text for text in self._texts)

    def _derived(self, piece: str) -> str:
        return hmac.digest(self.secret, piece.encode(), "sha256").hex()[:MARK_CHARS]


def _may_have_a_mark(text: str) -> bool:
    """Nearly no text has so many digits in a row, which is soon seen."""
    return _LIKE_A_MARK in text.encode(errors="replace").translate(_DIGIT_OR_NOT)


def _blocks_of(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(
        text[at : at + _BLOCK_CHARS] for text in texts for at in range(0, len(text), _BLOCK_CHARS)
    )


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a request for the model beside its instructions; trusted if there is no `label`."""

    text: str
    label: str = ""
    role: Role = "user"


@dataclass(frozen=True, slots=True)
class Shown:
    """The turns of a request, without an ending, and what they are made of.

    `sizes` are the bytes of each of its messages as they are shown, `size` those of all pieces.
    """

    fence: Fence
    description: str | None = None
    facts: tuple[Fact, ...] = ()
    messages: tuple[Message, ...] = ()
    turns: tuple[Turn, ...] = ()
    marks: frozenset[str] = frozenset()
    sizes: tuple[int, ...] = ()
    size: int = 0
    digests: PromptDigest = field(default_factory=PromptDigest, compare=False, repr=False)

    @property
    def has_data(self) -> bool:
        """Whether any of it is behind marks."""
        return bool(self.marks)

    def is_begin_of(self, request: Request, secret: bytes) -> bool:
        """Whether the request shows the same first; then it may show more messages."""
        return (
            self.fence.secret == secret
            and self.description == _description(request)
            and self.facts == request.context.facts
            and self.messages == request.context.messages[: len(self.messages)]
        )


def shown(request: Request, secret: bytes, before: Shown | None = None) -> Shown:
    """What comes of a request; the same, only sooner, where it begins with what is shown `before`.

    Marks of before stand as long as no new text has one of them in it.
    """
    if before is not None and before.is_begin_of(request, secret):
        fresh = request.context.messages[len(before.messages) :]
        pieces = [*map(_of_message, fresh)]
        added = Fence(secret).around((piece.text for piece in pieces), len(before.marks))
        if not any(map(added.has, before.marks)):
            return _with_pieces(before, pieces, fresh)
    context = request.context
    pieces = [*_pieces(request)]
    empty = Shown(Fence(secret), _description(request), context.facts)
    return _with_pieces(empty, pieces, context.messages)


def _with_pieces(before: Shown, pieces: Sequence[_Piece], messages: tuple[Message, ...]) -> Shown:
    """The last pieces are the `messages`."""
    labelled = sum(bool(piece.label) for piece in pieces)
    fence = before.fence.around((piece.text for piece in pieces), labelled)
    turns, marks = list[Turn](), set(before.marks)
    for piece in pieces:
        text = piece.text
        if piece.label:
            mark = fence.mark(piece.label, text)
            marks.add(mark)
            text = fence.put_with(mark, piece.label, text)
        turns.append(Turn(piece.role, text))
    sizes = [turn.size for turn in turns]
    return Shown(
        fence,
        before.description,
        before.facts,
        before.messages + messages,
        joined(before.turns, turns),
        frozenset(marks),
        (*before.sizes, *sizes[len(sizes) - len(messages) :]),
        before.size + sum(sizes),
        before.digests,
    )


def _description(request: Request) -> str | None:
    """A wrapped schema's description says what `output` is; like the schema, anyone's words."""
    schema = request.answer_schema
    if isinstance(schema, InlineRef) and schema.wrapped:
        return schema.description or None
    return None


def _pieces(request: Request) -> Iterator[_Piece]:
    if description := _description(request):
        yield _Piece(description, "description of output")
    for fact in request.context.facts:
        text = f"{fact.name}:\n{shown_value(fact.value)}"
        yield _Piece(text, "" if fact.trust == "trusted" else "fact")
    yield from map(_of_message, request.context.messages)


def _of_message(message: Message) -> _Piece:
    label = "" if message.trust == "trusted" else "message"
    return _Piece(message.content, label, message.role)


def joined(before: tuple[Turn, ...], more: Iterable[Turn]) -> tuple[Turn, ...]:
    """The turns and more of them, the user's first, no two of one role in a row.

    Some providers insist on it. Blank turns are left out, which some refuse.
    """
    filled = [turn for turn in more if turn.text.strip()]
    if filled and not before and filled[0].role == "assistant":
        filled.insert(0, Turn("user", _OPENING))
    if filled and before and before[-1].role == filled[0].role:
        filled.insert(0, before[-1])
        before = before[:-1]
    return (*before, *_merged(filled))


def _merged(turns: Iterable[Turn]) -> Iterator[Turn]:
    for role, neighbours in groupby(turns, key=lambda turn: turn.role):
        first, *others = neighbours
        yield Turn(role, "\n\n".join([first.text, *(o.text for o in others)])) if others else first


def ended(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    """The turns; the last is the user's."""
    return turns if turns and turns[-1].role == "user" else (*turns, Turn("user", _ENDING))
