"""The question with which a tool ends a delivery, to go on once a person has answered; pure."""

from dataclasses import dataclass

from answerbus.continued_call import ToolQuestion


@dataclass(frozen=True, slots=True)
class Ask:
    """The call goes on with `call.given`, in this server or another; `call.state` is this state."""

    question: ToolQuestion
    state: str
