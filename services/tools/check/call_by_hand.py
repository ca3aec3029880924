"""A call as a worker would make it, for a person or a check; pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import JsonValue

from answerbus.reconcile import ToolReconcile
from answerbus.tool_call import CallApproval, ParentRef, ReplyPlace, ToolCallRecord
from services.text.digest import canonical_digest


@dataclass(frozen=True, slots=True)
class HandCaller:
    """The caller, and the topic of the answers."""

    name: str
    results_topic: str
    partition: int
    token: str

    def call(
        self,
        call_id: str,
        toolset: str,
        tool: str,
        args: dict[str, JsonValue],
        *,
        at: datetime,
        expires_s: float,
        approved_by: str | None = None,
    ) -> ToolCallRecord:
        """One call; its run is one that does not exist, and its workflow the caller's own."""
        approved = CallApproval(by=approved_by or "", reason="called by hand", at=at)
        return ToolCallRecord(
            call_id=call_id,
            delivery=1,
            request_id=self.name,
            workflow_id=self.name,
            toolset=toolset,
            tool=tool,
            args=args,
            args_digest=canonical_digest(args),
            approved=approved if approved_by else None,
            expires_at=at + timedelta(seconds=expires_s),
            reply=ReplyPlace(
                topic=self.results_topic,
                partition=self.partition,
                key=self.name,
                token=self.token,
            ),
            parent=ParentRef(request_id=self.name, call_id=call_id),
            at=at,
        )

    def question(self, about: ToolCallRecord) -> ToolReconcile:
        """Whether a call had its effect."""
        return ToolReconcile(
            call_id=about.call_id,
            request_id=about.request_id,
            workflow_id=about.workflow_id,
            toolset=about.toolset,
            tool=about.tool,
            args=about.args,
            args_digest=about.args_digest,
            expires_at=about.expires_at,
            reply=about.reply,
            at=about.at,
        )
