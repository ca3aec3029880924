"""The time of the event loop, from which a worker counts all that it waits for."""

import asyncio


def loop_time() -> float:
    return asyncio.get_running_loop().time()
