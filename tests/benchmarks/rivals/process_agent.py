"""What rivals share that call tools in the process of their runs: model, tools, notes, options.

It runs in an environment of their own, as a module beside the script that imports it.
"""

import argparse
import asyncio
import json
import os
import random
import time
from pathlib import Path

import openai

CONNECTIONS = 10  # to the database
LATE_S = 2.0
NAMES = ("echo", "straggle", "effect")


class Agent:
    """The model and the tools, as the runs of a trial ask for them."""

    def __init__(self, options):
        self._base_url, self._effects = options.base_url, Path(options.effects)
        size = options.result_bytes
        self._filler = random.Random(1).randbytes(size).hex()[:size]
        self._offered = [_offered(name) for name in NAMES]
        self._clients = {}  # by event loop

    async def ask(self, messages):
        """The model's next message."""
        response = await self._client().chat.completions.create(
            model="stub", messages=messages, tools=self._offered
        )
        return response.choices[0].message.model_dump(exclude_none=True)

    async def call(self, call):
        """The message with the result of a tool call."""
        name, args = call["function"]["name"], json.loads(call["function"]["arguments"])
        if name == "straggle":
            await asyncio.sleep(LATE_S)
        if name == "effect":
            with self._effects.open("a") as effects:
                effects.write(f"{args['run']} {args['number']} {time.time():.6f}\n")
        text = f"{args['run']} {args['number']} {self._filler if name == 'echo' else ''}"
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    def _client(self):
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            fast = openai.DefaultAioHttpClient()  # its other one takes several times the CPU
            self._clients[loop] = openai.AsyncOpenAI(
                base_url=self._base_url, api_key="none", max_retries=3, http_client=fast
            )
        return self._clients[loop]


def asked(name):
    """The first message of a run."""
    return {"role": "user", "content": f"[[call {name}]] Work."}


def _offered(name):
    fields = {"run": {"type": "string"}, "number": {"type": "integer"}}
    parameters = {"type": "object", "properties": fields, "required": ["run", "number"]}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


async def drive(options, work):
    """Start runs, as many as there shall be; `work(name, is_new)` is over when the run is."""
    known = _past(options.notes)
    notes = Path(options.notes).open("a", buffering=1)
    places = asyncio.Semaphore(options.open or options.count)

    async def run(name, is_new):
        try:
            await work(name, is_new)
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


def _past(notes):
    """What an earlier process of the same trial noted."""
    known = {"started": set(), "ended": set(), "failed": set()}
    path = Path(notes)
    for line in path.read_text().splitlines() if path.exists() else []:
        for kind, name in json.loads(line).items():
            if kind in known:
                known[kind].add(name)
    return known


def options_of_trial():
    """What the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", required=True)
    parser.add_argument("--prepare", action="store_true", help="make the tables, and end")
    parser.add_argument("--name", required=True)
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--result-bytes", type=int, default=32)
    parser.add_argument("--effects", default=os.devnull)
    parser.add_argument("--open", type=int, default=0)
    parser.add_argument("--per-s", type=float, default=0.0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--notes", default=os.devnull)
    return parser.parse_args()
