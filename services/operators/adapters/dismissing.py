"""Dead letters dismissed, or opened again, a transaction at a time."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime

from answerbus.dead_letter import Dismissed
from answerbus.limits import REASON_BYTES_MAX
from answerbus.wire import clip
from services.operators.adapters.writer import CHANGES_MAX, DeadLetterChange, Writer
from services.operators.dead_letters.row import DeadLetterRow


async def dismissing(
    writer: Writer,
    dead_letters: Sequence[DeadLetterRow],
    by: str,
    reason: str,
    now: Callable[[], datetime],
    *,
    undone: bool,
) -> AsyncIterator[Sequence[DeadLetterRow]]:
    """Each step that is given is committed; to stop, ask for no further one.

    Raises Superseded and BusUnavailable, as `Writer.commit`.
    """
    by, reason = clip(by, REASON_BYTES_MAX), clip(reason, REASON_BYTES_MAX)
    for first in range(0, len(dead_letters), CHANGES_MAX):
        step = dead_letters[first : first + CHANGES_MAX]
        at = now()
        await writer.commit(
            [
                DeadLetterChange(
                    Dismissed(
                        dead_letter_id=dead_letter.id,
                        workflow_id=dead_letter.workflow_id,
                        by=by,
                        reason=reason,
                        at=at,
                        undone=undone,
                    ),
                    dead_letter.place.partition,
                )
                for dead_letter in step
            ]
        )
        yield step
