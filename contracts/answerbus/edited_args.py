"""Arguments that a person puts in the place of those that a model wrote."""

import json
from collections.abc import Mapping
from itertools import accumulate
from types import MappingProxyType
from typing import Annotated

from pydantic import AfterValidator, JsonValue
from pydantic_core import to_json

from answerbus import limits
from answerbus.json_values import has_more_values
from answerbus.policy import PolicyVerdict
from answerbus.wire import OMIT_NONE, Digest, Reason, Wire

PERSONS_JSON_DEPTH_MAX = limits.JSON_DEPTH_MAX - 16
_LEVELS: Mapping[int, int] = MappingProxyType(
    dict.fromkeys(b"[{", 1) | dict.fromkeys(b"]}", -1)  # by the code of the character
)
_OTHERS = bytes(set(range(256)) - _LEVELS.keys())


def small_json(
    value: JsonValue, bytes_max: int, values_max: int = limits.TOOL_RESULT_VALUES_MAX
) -> None:
    """Bounds of what people write, below those of a record: it is beside other members there.

    Raises ValueError.
    """
    too_large = ValueError(f"at most {bytes_max:,} bytes of JSON")
    compact = to_json(value)  # a tenth of the time; no longer but for numbers such as 0.00001
    if len(compact) - 2 * compact.count(b"0.0000") > bytes_max:
        raise too_large
    text = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    if len(text) > bytes_max:
        raise too_large
    if has_more_values(text, values_max):
        raise ValueError(f"at most {values_max:,} JSON values")
    if _depth(text) > PERSONS_JSON_DEPTH_MAX:
        raise ValueError(f"at most {PERSONS_JSON_DEPTH_MAX} levels of nesting")


def _depth(text: bytes) -> int:
    """At most: brackets in strings count, too."""
    signs = text.translate(None, _OTHERS)
    return max(accumulate(map(_LEVELS.__getitem__, signs), initial=0))


def _are_small(args: dict[str, JsonValue]) -> dict[str, JsonValue]:
    small_json(args, limits.TOOL_ARGS_BYTES_MAX, limits.EDITED_ARGS_VALUES_MAX)
    return args


PersonsArgs = Annotated[dict[str, JsonValue], AfterValidator(_are_small)]


class EditedArgs(Wire):
    """The arguments that a person gave a call, whose step has those of its model.

    `policy` is the verdict on them, where the agent has a policy for the tool.
    """

    args: PersonsArgs
    args_digest: Digest
    by: Reason
    policy: Annotated[PolicyVerdict | None, OMIT_NONE] = None
