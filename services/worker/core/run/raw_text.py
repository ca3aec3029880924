"""The text of a run's answer that is taken as plain text: its words, without thoughts."""

from pydantic import JsonValue

from answerbus import json_text

_SIGN = '"thought"'


def visible_text(text: str) -> str | None:
    """The texts of its actions, where it has some; else the text itself. None: all of it is hidden.

    Where it cannot be read as JSON, it is unknown which part of it is a thought.
    """
    parsed = json_text.parse(text.encode(errors="surrogatepass"))
    if isinstance(parsed, json_text.NotJson):
        return None if _SIGN in text else text
    actions = _actions(parsed.value)
    if actions is None:
        return text
    texts = [action.get("content") for action in actions if action.get("kind") == "text_response"]
    return "\n\n".join(it for it in texts if isinstance(it, str) and it.strip()) or None


def _actions(value: JsonValue) -> list[dict[str, JsonValue]] | None:
    """As `actions` of an object, as a bare list, or a single one; None: it has no thought."""
    listed = value.get("actions", value) if isinstance(value, dict) else value
    found = listed if isinstance(listed, list) else [listed]
    actions = [one for one in found if isinstance(one, dict) and "kind" in one]
    return actions or None
