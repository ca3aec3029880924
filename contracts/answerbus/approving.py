"""Makes the approval of a call as it was asked for, or with arguments that a person changed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from answerbus.canonical_json import canonical_digest
from answerbus.control import Approval, ApprovalRequested


def approval_of(
    asked: ApprovalRequested,
    decision: Literal["approved", "denied"],
    args: Mapping[str, JsonValue] | None,
    *,
    by: str,
    reason: str,
    at: datetime,
    said_by: str | None = None,
) -> Approval:
    """Arguments equal to those asked for change nothing. Raises ValidationError if too large.

    A digest alone takes a whole number beyond 2^53 for the text of its digits.
    """
    digest = asked.args_digest if args is None else canonical_digest(dict(args))
    is_edited = digest != asked.args_digest or args not in (None, asked.args)
    return Approval(
        call_id=asked.call_id,
        args_digest=digest,
        args=dict(args) if args is not None and is_edited else None,
        asked_digest=asked.args_digest if is_edited else None,
        delivery=asked.delivery,
        after_input=asked.after_input,
        decision=decision,
        by=by,
        said_by=said_by,
        reason=reason,
        workflow_id=asked.workflow_id,
        at=at,
    )
