"""Ask for an answer by a contract of your own."""

import os

from answerbus_moods import Mood

from answerbus.client import SyncClient

KAFKA = os.environ.get("KAFKA", "localhost:9092")
TOPIC_PREFIX = os.environ.get("TOPIC_PREFIX", "answerbus")

if __name__ == "__main__":
    with SyncClient(KAFKA, topic_prefix=TOPIC_PREFIX) as client:
        outcome = client.ask(
            "How does this customer feel?",
            workflow_id="mail-1",
            response_model=Mood,
            facts={"mail": "Third time I write. The parcel is still not here!"},
        )
    print(outcome.unwrap().feeling)
