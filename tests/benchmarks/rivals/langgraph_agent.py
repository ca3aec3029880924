"""LangGraph with its PostgreSQL checkpointer as an entrant; in an environment of its own.

    python langgraph_agent.py --database URL --base-url URL OPTIONS

A graph of two nodes, model and tools, with a checkpoint after each. Tools are called in the process
itself. A run that is open in the database at the start goes on from its last checkpoint.
"""

import asyncio
import operator
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from process_agent import CONNECTIONS, Agent, asked, drive, options_of_trial
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

RECURSION_MAX = 1_000


class State(TypedDict):
    """All that was said in a run: each node adds to it."""

    messages: Annotated[list[dict[str, Any]], operator.add]


def graph_of(agent, saver):
    async def model(state):
        return {"messages": [await agent.ask(state["messages"])]}

    async def tools(state):
        calls = state["messages"][-1]["tool_calls"]
        return {"messages": list(await asyncio.gather(*map(agent.call, calls)))}

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].get("tool_calls") else END
    )
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


async def main(options):
    # As the saver's own `from_conn_string`, with a pool in place of its one connection.
    options_of_each = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool(
        options.database, min_size=CONNECTIONS, max_size=CONNECTIONS, kwargs=options_of_each,
        open=False,
    )  # fmt: skip
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        if options.prepare:
            return
        graph = graph_of(Agent(options), saver)

        async def work(name, is_new):
            config = {"configurable": {"thread_id": name}, "recursion_limit": RECURSION_MAX}
            if not is_new and not (await graph.aget_state(config)).values:
                is_new = True  # it was lost before its first checkpoint
            # A checkpoint is written before the next node begins: else a kill loses steps.
            asks = {"messages": [asked(name)]} if is_new else None
            await graph.ainvoke(asks, config, durability="sync")

        await drive(options, work)


if __name__ == "__main__":
    asyncio.run(main(options_of_trial()))
