"""Histories of trees made by hand: a run delegates, a child answers, and its run is told."""

from dataclasses import dataclass, field, replace
from typing import Any

from tests.chaos.audit.canonical import digest
from tests.chaos.by_hand import made
from tests.chaos.by_hand.made import Json
from tests.chaos.by_hand.run_history_builder import RunHistoryBuilder

RUN, PLACE = "r", "1.0"
CHILD = f"{RUN}.call.{PLACE}"
TTL_S = 600


def _allowed() -> Json:
    split = {"split": "pool", "agents": [], "profiles": []}
    return {"delegate": {"depth_max": 1, "children_max": 2, **split}}


@dataclass
class TreeHistoryBuilder(RunHistoryBuilder):
    """The run `r` asks one child in its first step."""

    allowed: Json = field(default_factory=_allowed)
    ttl_s: int = TTL_S

    def delegate(self, place: str = PLACE, cap: int | None = None, attempts: int = 9) -> None:
        """A step asks for a child; `place` is the call that it says it answers."""
        self.begin(RUN, attempts)
        self.step(RUN, 1, "delegate")
        at, call_id = self.tick(), f"{RUN}.call.{place}"
        parent = {"request_id": RUN, "call_id": call_id, "depth": 1, "floor": 1, "cap": cap}
        asked = {"request_id": call_id, "workflow_id": "w", "parent": parent, "ttl_s": self.ttl_s}
        example = made.event("run_child")
        body = {**example["request"], **asked, "answer_schema": {"kind": "text"}}
        origin = {**example["origin"], "timestamp": made.text(at)}
        known = {"workflow_id": "w", "body_digest": digest(body), "origin": origin}
        self.write("run_child", 0, request=body, **known)
        self.asked[call_id] = body, replace(self.records[-1], timestamp=at)

    def answer_child(self, name: str = CHILD) -> None:
        self.spend(name)
        self.call(name)
        self.settle(name)

    def end_child(self, name: str = CHILD) -> None:
        """It has its terminal, which names its run."""
        parent = self.asked[name][0]["parent"]
        self.end(name, parent={key: parent[key] for key in ("request_id", "call_id", "depth")})
        self.put("runs", 0, f"{name}@w".encode(), None)

    def join(self, **changes: Any) -> None:
        """The run is told of it."""
        fields = {"kind": "ok", "value": made.event("result")["answer"]}
        self.close_call(RUN, PLACE, **{"outcome": fields, **changes})

    def end_tree(self) -> None:
        """The child answers, its run is told, and ends."""
        self.answer_child()
        self.end_child()
        self.join()
        self.finish(RUN, 2)
