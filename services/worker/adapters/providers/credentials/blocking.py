"""Tokens of a maker's library, which blocks: asked for in a thread that nobody has to wait for.

Where an issuer does not answer, these libraries try again for minutes. A thread of the event loop's
pool would be kept from the worker's other work as long, and the end of the process wait for it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread

from services.worker.adapters.providers.credentials.credential import Token


class BlockingCredential:
    """See Credential. One call at a time for each audience: while one hangs, it is waited for."""

    def __init__(self, ask: Callable[[str | None], Token]) -> None:
        self._ask = ask
        self._calls: dict[str | None, Future[Token]] = {}

    async def __call__(self, audience: str | None) -> Token:
        call = self._calls.get(audience)
        if call is None or call.done():
            call = Future()
            call.set_running_or_notify_cancel()  # who leaves does not end it
            Thread(target=self._run, args=(call, audience), name="credential", daemon=True).start()
            self._calls[audience] = call  # not before: a thread may fail to start
        return await asyncio.wrap_future(call)

    def _run(self, call: Future[Token], audience: str | None) -> None:
        try:
            call.set_result(self._ask(audience))
        except Exception as error:  # of the library
            call.set_exception(error)
        except BaseException as error:  # such as SystemExit, which would end the event loop
            call.set_exception(RuntimeError(f"the library has raised {type(error).__name__}"))
