"""A process that has loaded answerbus, and forks into each command that it is asked for.

A new interpreter takes seconds of CPU to load a command's libraries, and tests start hundreds of
commands. A forked one has them loaded, and does all else as `answerbus` does: settings, signals,
streams, exit code, and an end of its own.
"""

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from services import cli

LENGTH_BYTES = 4  # of an order, before it
FDS = 4  # stdin, stdout, stderr, and the pipe for pid and exit code
RESET = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE)


def next_order(control: socket.socket) -> tuple[Mapping[str, Any], Sequence[int]] | None:
    """What to be, and with which streams; None once no test can ask any more."""
    head, fds, _, _ = socket.recv_fds(control, LENGTH_BYTES, FDS)
    if not head:
        return None
    body, length = b"", int.from_bytes(head)
    while len(body) < length:
        body += control.recv(length - len(body))
    return json.loads(body), fds


def fork_for_each(control: socket.socket) -> Mapping[str, Any]:
    """Serve orders; returns only in a process that is to become a command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps those that wait beside
    while (asked := next_order(control)) is not None:
        order, (*streams, report) = asked
        if not os.fork():
            control.close()
            wait_beside(streams, report)
            become(order, streams)
            return order
        for fd in (*streams, report):
            os.close(fd)
    sys.exit()


def wait_beside(streams: Sequence[int], report: int) -> None:
    """Fork again: the parent tells the pid and the exit code, the child returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not (pid := os.fork()):
        os.close(report)
        return
    for fd in (0, 1, 2, *streams):
        os.close(fd)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # it ends when its reader has ended
    os.write(report, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def become(order: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Take over what a new process would have been given."""
    for fd, stream in enumerate(streams):
        os.dup2(stream, fd)
        os.close(stream)
    # Those of the server may have been files, and are not sought in any more.
    sys.stdout, sys.stderr = (open(fd, "w", 1, closefd=False) for fd in (1, 2))  # noqa: SIM115
    for number in RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()  # noqa: TID251 - the environment of a new process
    os.environ.update(order["environment"])  # noqa: TID251
    os.chdir(order["folder"])
    sys.argv[1:] = order["arguments"]


def main() -> None:
    """Load everything, and serve the socket that is stdin."""
    for name in cli._PARTS:
        cli.loaded(name)
    gc.collect()
    gc.freeze()  # or each fork would copy what it only looks at
    fork_for_each(socket.socket(fileno=os.dup(0)))
    cli.main()


if __name__ == "__main__":
    main()
