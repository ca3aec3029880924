"""An agent in a plain loop: the model says what to do next, the loop does it."""

import asyncio
import os
import sys
from collections.abc import Callable

from answerbus.answers.agent_action import AgentAction, TextResponse, Thought, ToolCall
from answerbus.budget import Budget
from answerbus.client import Client
from answerbus.request import Message

TURNS_MAX = 8
INSTRUCTIONS = "Answer the customer. The tool get_order(order_id) says where an order is."


def get_order(order_id: str) -> str:
    return f"Order {order_id} has left the warehouse."


def run(call: ToolCall) -> str:
    tools: dict[str, Callable[..., str]] = {"get_order": get_order}
    try:
        return tools[call.name](**call.args)
    except (KeyError, TypeError) as error:  # no such tool, or no such arguments
        return repr(error)


async def answer(client: Client, question: str, workflow_id: str) -> str:
    messages = [Message(role="user", content=question)]
    for _ in range(TURNS_MAX):
        outcome = await client.ask(
            INSTRUCTIONS,
            workflow_id=workflow_id,
            response_model=AgentAction,
            messages=messages,
            budget=Budget(attempts=2 * TURNS_MAX),  # for all turns together
        )
        step = outcome.unwrap()
        messages.append(Message(role="assistant", content=step.model_dump_json()))
        for action in step.actions:
            match action:
                case ToolCall():
                    messages.append(Message(role="user", content=f"{action.name}: {run(action)}"))
                case TextResponse(content=text):
                    return text
                case Thought():
                    pass
    return "I could not find out."


async def main(question: str, workflow_id: str) -> None:
    prefix = os.environ.get("TOPIC_PREFIX", "answerbus")
    async with Client(os.environ.get("KAFKA", "localhost:9092"), topic_prefix=prefix) as client:
        print(await answer(client, question, workflow_id))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
