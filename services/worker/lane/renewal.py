"""A lane's record written again now and then: it says how many partitions the deployment has."""

from datetime import datetime, timedelta

from services.worker.lane.books import Books
from services.worker.lane.taking_in import Writing

# Near the end of the ledger it is found soon (answerbus.client.layout), and retention never takes
# it away while the lane is open.
RENEWED_AFTER = timedelta(minutes=10)


def renewal(books: Books, now: datetime) -> Writing | None:
    """The record, if it is old."""
    lane = books.ledger.lane
    return books.presence(now) if lane and now - lane.at > RENEWED_AFTER else None
