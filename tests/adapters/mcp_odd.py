"""A program that speaks JSON-RPC by hand over stdio, and as oddly as its argument says."""

import json
import sys

ODD = json.loads(sys.argv[1])
PAGE = {"tools": [{"name": "a", "inputSchema": {"type": "object"}}]}
HELLO = {
    "protocolVersion": ODD.get("version", "2025-11-25"),
    "capabilities": ODD.get("capabilities", {"tools": {}}),
    "serverInfo": {"name": "odd", "version": "1"},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    match asked["method"]:
        case "initialize":
            answer["result"] = {**HELLO, **ODD.get("hello", {})}
        case "tools/list":
            answer["result"] = {**PAGE, **ODD.get("page", {})} if "error" not in ODD else None
            answer = answer if "error" not in ODD else {**answer, "error": ODD["error"]}
        case _:
            error = {"code": -32601, "message": "CONTENT-MARKER-7f3a"}
            answer["error"] = ODD.get("discover", error)
    if answer.get("error"):
        answer.pop("result", None)
    print(json.dumps(answer), flush=True)
