"""LangGraph with its PostgreSQL checkpointer as an entrant; in an environment of its own.

    python langgraph_agent.py --database URL --base-url URL OPTIONS

A graph of two nodes, model and tools, with a checkpoint after each. Tools are called in the process
itself. What stands open in the database at the start goes on from its last checkpoint.
"""

import argparse
import asyncio
import json
import operator
import os
import random
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

import openai
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

CONNECTIONS = 10
LATE_S = 2.0
RECURSION_MAX = 1_000
NAMES = ("echo", "straggle", "effect")


class State(TypedDict):
    """All that was said in a run: each node adds to it."""

    messages: Annotated[list[dict[str, Any]], operator.add]


def schema_of(name):
    fields = {"run": {"type": "string"}, "number": {"type": "integer"}}
    parameters = {"type": "object", "properties": fields, "required": ["run", "number"]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def graph_of(options, saver):
    fast = openai.DefaultAioHttpClient()  # its other one takes several times the CPU of a call
    client = openai.AsyncOpenAI(
        base_url=options.base_url, api_key="none", max_retries=3, http_client=fast
    )
    offered = [schema_of(name) for name in NAMES]
    filler = random.Random(1).randbytes(options.result_bytes).hex()[: options.result_bytes]

    async def model(state):
        response = await client.chat.completions.create(
            model="stub", messages=state["messages"], tools=offered
        )
        return {"messages": [response.choices[0].message.model_dump(exclude_none=True)]}

    async def one(call):
        name, args = call["function"]["name"], json.loads(call["function"]["arguments"])
        if name == "straggle":
            await asyncio.sleep(LATE_S)
        if name == "effect":
            with Path(options.effects).open("a") as effects:
                effects.write(f"{args['run']} {args['number']} {time.time():.6f}\n")
        text = f"{args['run']} {args['number']} {filler if name == 'echo' else ''}"
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    async def tools(state):
        calls = state["messages"][-1]["tool_calls"]
        return {"messages": list(await asyncio.gather(*map(one, calls)))}

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].get("tool_calls") else END
    )
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


async def work(options):
    # As the saver's own `from_conn_string`, with a pool in place of its one connection.
    options_of_each = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool(
        options.database, min_size=CONNECTIONS, max_size=CONNECTIONS, kwargs=options_of_each,
        open=False,
    )  # fmt: skip
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        graph = graph_of(options, saver)
        known = past(options.notes)
        notes = Path(options.notes).open("a", buffering=1)
        places = asyncio.Semaphore(options.open or options.count)

        async def run(name, is_new):
            config = {"configurable": {"thread_id": name}, "recursion_limit": RECURSION_MAX}
            asked = {"messages": [{"role": "user", "content": f"[[call {name}]] Work."}]}
            try:
                if not is_new and not (await graph.aget_state(config)).values:
                    is_new = True  # it was lost before its first checkpoint
                # A checkpoint is written before the next node begins: else a kill loses steps.
                await graph.ainvoke(asked if is_new else None, config, durability="sync")
                notes.write(json.dumps({"ended": name, "at": time.time()}) + "\n")
            except Exception as error:
                notes.write(json.dumps({"failed": name, "why": repr(error)[:200]}) + "\n")
            finally:
                places.release()

        print("ready", flush=True)
        tasks, began = set(), time.monotonic()
        names = (f"{options.name}-{number}" for number in range(options.count))  # up to 10,000,000
        for number, name in enumerate(names):
            if name in known["ended"]:
                continue
            if options.per_s:
                await asyncio.sleep(max(0.0, began + number / options.per_s - time.monotonic()))
            await places.acquire()
            is_new = name not in known["started"]
            if is_new:
                notes.write(json.dumps({"started": name}) + "\n")
            task = asyncio.create_task(run(name, is_new))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        await asyncio.Event().wait()


def past(notes):
    """What an earlier process of the same trial noted."""
    known = {"started": set(), "ended": set(), "failed": set()}
    path = Path(notes)
    for line in path.read_text().splitlines() if path.exists() else []:
        for kind, name in json.loads(line).items():
            if kind in known:
                known[kind].add(name)
    return known


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--result-bytes", type=int, default=32)
    parser.add_argument("--effects", default=os.devnull)
    parser.add_argument("--open", type=int, default=0)
    parser.add_argument("--per-s", type=float, default=0.0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--notes", default=os.devnull)
    asyncio.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
