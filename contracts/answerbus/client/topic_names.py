"""Topics by their names on a broker, those of toolsets included."""

import re

from answerbus.topics import EVERY_TOPIC, PREFIX_DEFAULT, Topic, tool_calls


def topic_named(full_name: str, prefix: str = PREFIX_DEFAULT) -> Topic | None:
    """The topic of this name on the broker; None for topics that are not ours."""
    found = next((topic for topic in EVERY_TOPIC if topic.full_name(prefix) == full_name), None)
    calls = re.fullmatch(rf"{re.escape(prefix)}\.tools\.([a-z0-9][a-z0-9_\-]*)\.v1", full_name)
    return tool_calls(calls[1]) if calls else found
