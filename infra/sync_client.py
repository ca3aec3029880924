"""Writes the methods of SyncClient from those of Client: `python -m infra.sync_client`."""

import ast
import subprocess
import sys
from pathlib import Path

CLIENT = Path("contracts/answerbus/client/client.py")
SYNC_CLIENT = Path("contracts/answerbus/client/sync_client.py")
BEGIN = "    # Written from client.py by infra/sync_client.py: begin.\n"
END = "    # End of what is written.\n"
PROGRESS = "on_progress"  # is called in the thread of the caller


def sync_client(client: str, text: str) -> str:
    """The module with its methods as they must be; `client` is the text of Client's module."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return _formatted(before + BEGIN + "\n" + "\n".join(_methods(client)) + "\n" + END + after)


def _methods(client: str) -> list[str]:
    body = next(
        node.body
        for node in ast.parse(client).body
        if isinstance(node, ast.ClassDef) and node.name == "Client"
    )
    lines = client.splitlines()
    return [
        _signature(method, lines) + _call(method)
        for method in body
        if isinstance(method, ast.AsyncFunctionDef) and not method.name.startswith("_")
    ]


def _signature(method: ast.AsyncFunctionDef, lines: list[str]) -> str:
    """As it is written, with its comments."""
    signature = "\n".join(lines[method.lineno - 1 : method.body[0].lineno - 1])
    docstring = f'        """See `Client.{method.name}`."""'
    return f"{signature.replace('async def', 'def', 1)}\n{docstring}\n"


def _call(method: ast.AsyncFunctionDef) -> str:
    args = method.args
    passed = [arg.arg for arg in args.args if arg.arg != "self"]
    names = [arg.arg for arg in args.kwonlyargs]
    passed += [f"{name}={'report' if name == PROGRESS else name}" for name in names]
    if args.kwarg:
        passed.append(f"**{args.kwarg.arg}")
    call = f"self._client.{method.name}({', '.join(passed)})"
    if PROGRESS in names:
        return f"        return self._with_progress(lambda report: {call}, {PROGRESS})\n"
    return f"        return self._thread.call({call})\n"


def _formatted(text: str) -> str:
    command = (sys.executable, "-m", "ruff", "format", "--stdin-filename", str(SYNC_CLIENT), "-")
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    written = sync_client(
        CLIENT.read_text(encoding="utf-8"), SYNC_CLIENT.read_text(encoding="utf-8")
    )
    SYNC_CLIENT.write_text(written, encoding="utf-8")
