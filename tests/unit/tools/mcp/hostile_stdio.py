"""An MCP server on stdio that misbehaves as its argument says, in each call and after it."""

import json
import sys
from typing import Any

MIB = 1024 * 1024
RESULT = {"content": [{"type": "text", "text": "done"}]}
TOOL = {"name": "act", "inputSchema": {"type": "object"}}


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def answer(asked: Any, result: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": asked, "result": result}) + "\n")


def initialized(request: Any) -> dict[str, Any]:
    return {
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
    }


def misbehave(manner: str, request: Any) -> None:  # noqa: C901 - one case each
    asked = request["id"]
    begun = f'{{"jsonrpc":"2.0","id":{asked},"result":{{'
    match manner:
        case "endless line":
            while True:
                write("x" * 65_536)
        case "deep":
            write(f'{begun}"a":{"[" * 100_000}}}}}\n')
        case "many values":
            write(f'{begun}"content":[{"{}," * MIB}{{}}]}}}}\n')
        case "many faults":
            write(f'{begun}"content":[{"{}," * 60_000}{{}}]}}}}\n')
        case "notifications":
            while True:
                write('{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n' * 100)
        case "requests":
            faults: list[Any] = [{}] * 60_000
            method = "sampling/createMessage"
            asking = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"messages": faults}}
            while True:
                write(json.dumps(asking) + "\n")
        case "no messages":
            while True:
                write("\n" * 65_536)
        case "stderr":
            sys.stderr.write("x" * MIB)
            answer(asked, RESULT)
        case "ends":
            sys.exit(1)
        case _:
            answer(asked, RESULT)


def main(manner: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize" if manner != "silent":
                answer(request["id"], initialized(request))
            case "tools/list" if manner == "many tools":
                answer(request["id"], {"tools": [TOOL] * 1_000_000})
            case "tools/list" if manner == "pages":
                answer(request["id"], {"tools": [TOOL], "nextCursor": "again"})
            case "tools/list":
                answer(request["id"], {"tools": [TOOL]})
            case "tools/call":
                misbehave(manner, request)
            case _ if "id" in request and manner != "silent":
                error = {"code": -32601, "message": "unknown"}
                write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}) + "\n")
            case _:
                pass


if __name__ == "__main__":
    main(sys.argv[1])
