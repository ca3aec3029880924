"""Calfkit as an entrant of the benchmark; runs in an environment of its own (rivals/place.py).

    python calfkit_agent.py agent|tools|drive OPTIONS

An agent with a tool or two in the manner of Calfkit's own pages: topics are provisioned by it, with
12 partitions, and each process runs until it is killed.
"""

import argparse
import asyncio
import json
import os
import random
import time
from pathlib import Path

from calfkit import Agent, Client, ProvisioningConfig, Worker, agent_tool
from calfkit.providers import OpenAIModelClient

PARTITIONS = 12
SIDE_BY_SIDE = 1_000  # messages that a node works on at once
LATE_S = 2.0
RUN_LIMIT_S = 120.0


def tools_of(suffix, result_bytes, effects):
    """The same as ours; names are the trial's own, since topics are named after them."""
    filler = random.Random(1).randbytes(result_bytes).hex()[:result_bytes]

    @agent_tool(name=f"echo_{suffix}")
    async def echo(run: str, number: int) -> str:
        """Answer at once."""
        return f"{run} {number} {filler}"

    @agent_tool(name=f"straggle_{suffix}")
    async def straggle(run: str, number: int) -> str:
        """Answer later than all others."""
        await asyncio.sleep(LATE_S)
        return f"{run} {number}"

    @agent_tool(name=f"effect_{suffix}")
    async def effect(run: str, number: int) -> str:
        """Note in a file that it ran."""
        with Path(effects).open("a") as journal:
            journal.write(f"{run} {number} {time.time():.6f}\n")
        return "noted"

    return [echo, straggle, effect]


def client_of(options):
    provisioning = ProvisioningConfig(enabled=True, num_partitions=PARTITIONS)
    return Client.connect(options.bootstrap, provisioning=provisioning)


async def serve(options, nodes):
    worker = Worker(client_of(options), nodes=nodes, max_workers=SIDE_BY_SIDE)
    async with worker:
        print("ready", flush=True)
        await asyncio.Event().wait()


async def drive(options):
    """Start runs; note each that ends, and each that is started, in a file."""
    client = client_of(options)
    gateway = client.agent(options.name)
    places = asyncio.Semaphore(options.open or options.count)
    notes = Path(options.notes).open("a", buffering=1)

    async def run(name):
        try:
            await gateway.execute(f"[[call {name}]] Work.", timeout=options.limit)
            notes.write(json.dumps({"ended": name, "at": time.time()}) + "\n")
        except Exception as error:
            notes.write(json.dumps({"failed": name, "why": repr(error)[:200]}) + "\n")
        finally:
            places.release()

    print("ready", flush=True)
    tasks, began = set(), time.monotonic()
    for number in range(options.count):
        if options.per_s:
            await asyncio.sleep(max(0.0, began + number / options.per_s - time.monotonic()))
        await places.acquire()
        name = f"{options.name}-{number}"
        notes.write(json.dumps({"started": name}) + "\n")
        task = asyncio.create_task(run(name))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    await asyncio.Event().wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["agent", "tools", "drive"])
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--base-url", default="")
    parser.add_argument("--result-bytes", type=int, default=32)
    parser.add_argument("--effects", default=os.devnull)
    parser.add_argument("--open", type=int, default=0)
    parser.add_argument("--per-s", type=float, default=0.0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--limit", type=float, default=RUN_LIMIT_S)
    parser.add_argument("--notes", default=os.devnull)
    options = parser.parse_args()
    tools = tools_of(options.name, options.result_bytes, options.effects)
    if options.part == "drive":
        asyncio.run(drive(options))
    elif options.part == "tools":
        asyncio.run(serve(options, tools))
    else:
        model = OpenAIModelClient("stub", base_url=options.base_url, api_key="none")
        agent = Agent(options.name, system_prompt="You work.", tools=tools, model_client=model)
        asyncio.run(serve(options, [agent]))


if __name__ == "__main__":
    main()
