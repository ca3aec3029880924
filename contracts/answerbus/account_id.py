"""The ids of accounts: derived from the workflow, and for a replay from its dead letter as well."""

import hashlib
import re

DIGEST_CHARS = 12
_LOOKS_DERIVED = re.compile(rf"~([0-9a-f]{{{DIGEST_CHARS}}})?\Z")


def workflow_account(workflow_id: str) -> str:
    """The account of a workflow: its id, with `~` behind it where it could be a replay's account.

    No two workflows have the same account, and none has one that a replay can have.
    """
    # Few have a `~`, and this is asked a dozen times a request.
    looks_derived = "~" in workflow_id and _LOOKS_DERIVED.search(workflow_id)
    return f"{workflow_id}~" if looks_derived else workflow_id


def replay_account(workflow_id: str, dead_letter_id: str) -> str:
    """The account of the replays of one dead letter."""
    return f"{workflow_id}~{short_digest(dead_letter_id)}"


def belongs(account_id: str, workflow_id: str) -> bool:
    """Whether an account can be the workflow's own, or that of one of its replays."""
    if account_id == workflow_account(workflow_id):
        return True
    found = _LOOKS_DERIVED.search(account_id)
    return bool(found and found[1]) and account_id[: -DIGEST_CHARS - 1] == workflow_id


def short_digest(text: str) -> str:
    """Enough of a text's SHA-256 to be unique within a workflow."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARS]
