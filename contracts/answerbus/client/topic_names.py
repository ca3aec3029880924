"""Topics by their names on a broker, those of toolsets included."""

import re

from answerbus.topics import EVERY_TOPIC, PREFIX_DEFAULT, Topic, tool_calls, toolset_cards


def topic_named(full_name: str, prefix: str = PREFIX_DEFAULT) -> Topic | None:
    """The topic of this name on the broker; None for topics that are not ours."""
    found = next((topic for topic in EVERY_TOPIC if topic.full_name(prefix) == full_name), None)
    own = re.fullmatch(
        rf"{re.escape(prefix)}\.(tools|toolsets)\.([a-z0-9][a-z0-9_\-]*)\.v1", full_name
    )
    if own is None:
        return found
    return tool_calls(own[2]) if own[1] == "tools" else toolset_cards(own[2])
