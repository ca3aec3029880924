"""A toolset: functions that agents may have called, under one name, served on one topic."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeVar, overload

from pydantic import TypeAdapter, ValidationError

from answerbus.json_values import values_of
from answerbus.limits import (
    ENVELOPE_EXTRA_BYTES_MAX,
    EVENT_VALUES_MAX,
    RECORD_BYTES_MAX,
    TOOL_TIMEOUT_S_DEFAULT,
    TOOLSET_TOOLS_MAX,
)
from answerbus.tool_call import ToolsetName
from answerbus.tools.call import ToolCall
from answerbus.tools.core.function_tool import ToolOptions, ToolSignatureError, function_tool
from answerbus.tools.core.reconciler import Reconciler
from answerbus.tools.core.tool import Tool
from answerbus.toolset_card import ApprovalRule, Delivery, ToolsetCard

# Of all tools in a card, which leaves room for what stands beside them in its record.
TOOLS_BYTES_MAX = RECORD_BYTES_MAX - ENVELOPE_EXTRA_BYTES_MAX
TOOLS_VALUES_MAX = EVENT_VALUES_MAX - 500

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class Toolset:
    """Tools under one name. Making one does nothing: a server serves it.

    orders = Toolset("orders")

    @orders.tool
    async def get_order(order_id: str) -> dict[str, str]:
        '''The state of an order.'''
    """

    def __init__(self, name: str, *, written_by: Literal["code", "mcp"] = "code") -> None:
        """Raises ValueError for a name that no topic can have."""
        try:
            self.name: str = TypeAdapter(ToolsetName).validate_python(name)
        except ValidationError:
            raise ValueError(
                f"A toolset cannot be called {name!r}: lower-case letters, digits, _ and -, at "
                "most 64, with a letter or digit first."
            ) from None
        self._written_by: Literal["code", "mcp"] = written_by
        self._tools: dict[str, Tool] = {}
        self._bytes = self._values = 0  # of their cards

    @overload
    def tool(self, function: FunctionT, /) -> FunctionT: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        delivery: Delivery = "at_least_once",
        approval: ApprovalRule = "never",
        timeout_s: float = TOOL_TIMEOUT_S_DEFAULT,
        repeatable: bool = False,
        reconcile: Reconciler | None = None,
    ) -> Callable[[FunctionT], FunctionT]: ...

    def tool(self, function: Any = None, /, **options: Any) -> Any:
        """Make a function a tool; it stays the function that it is. Raises ToolSignatureError.

        `at_least_once`: it may run again after a crash, with the same `call.id`, and its effects
        must be idempotent. `at_most_once`: it never runs twice, and after a crash it is not known
        whether it ran.

        `repeatable`: its result changes, or it is meant to run more than once. Else an equal call
        in the next step is answered from the result of the one that succeeded.

        `reconcile`: for a tool that runs at most once, finds out from the id and the arguments of a
        call without a result whether it ran. It is asked in this process or another, some time
        after that call, and must itself have no effect.
        """
        if function is None:
            return lambda decorated: self._with(decorated, options)
        return self._with(function, options)

    def _with(self, function: FunctionT, options: Mapping[str, Any]) -> FunctionT:
        self.add(function_tool(function, ToolOptions(**options), ToolCall))
        return function

    def add(self, tool: Tool) -> None:
        """Add a tool that is not a Python function. Raises ToolSignatureError."""
        if tool.name in self._tools:
            raise ToolSignatureError(f"The toolset {self.name} has two tools {tool.name}.")
        if len(self._tools) == TOOLSET_TOOLS_MAX:
            raise ToolSignatureError(f"A toolset has at most {TOOLSET_TOOLS_MAX} tools.")
        text = tool.card.model_dump_json().encode()
        size, values = self._bytes + len(text), self._values + values_of(text)
        if size > TOOLS_BYTES_MAX or values > TOOLS_VALUES_MAX:
            raise ToolSignatureError(
                f"With the tool {tool.name}, the card of the toolset {self.name} has {size:,} "
                f"bytes and {values:,} JSON values, and workers read at most "
                f"{TOOLS_BYTES_MAX:,} and {TOOLS_VALUES_MAX:,}: serve some of its tools as "
                "another toolset."
            )
        self._tools[tool.name] = tool
        self._bytes, self._values = size, values

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools by name, without the toolset's; in the order of their addition."""
        return MappingProxyType(self._tools)

    def card(self, server: str = "") -> ToolsetCard:
        """The card that a server announces, of all tools, with its digest."""
        card = ToolsetCard(
            toolset=self.name,
            tools=tuple(tool.card for tool in self._tools.values()),
            written_by=self._written_by,
            server=server,
        )
        return card.model_copy(update={"digest": card.computed_digest()})
