"""Drives the official Python SDK for python.mjs: a JSON object a line on stdin, its answer and its reports on stdout.

The one argument is the SDK's `mode`: "legacy", "auto" or a modern revision such as "2026-07-28".
"""

import json
import os
import sys

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client

PAGES = {"tools": "tools", "prompts": "prompts", "resources": "resources", "templates": "resource_templates"}


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def transport_to(target):
    if target.get("sse"):
        return sse_client(target["url"])
    if "url" in target:
        return target["url"]
    server = StdioServerParameters(**{k: target[k] for k in ("command", "args", "env", "cwd") if k in target})
    return stdio_client(server, errlog=open(os.devnull, "w"))


def client_for(mode, request):
    answers = request["answers"]

    async def elicit(_context, params):
        say(report="asked", method="elicitation/create", params=plain(params))
        return types.ElicitResult(action="accept", content=answers["elicit"])

    async def sample(_context, params):
        say(report="asked", method="sampling/createMessage", params=plain(params))
        text = types.TextContent(type="text", text=answers["sample"])
        return types.CreateMessageResult(role="assistant", model="interop", content=text)

    async def roots(_context):
        return types.ListRootsResult(roots=[])

    async def message(incoming):
        method = getattr(incoming, "method", "")
        if method.endswith("/list_changed"):
            say(report="changed", kind=method.split("/")[1])

    return Client(
        transport_to(request["target"]),
        mode=mode,
        client_info=types.Implementation(name=request["name"], version="1.0.0"),
        read_timeout_seconds=request["timeout"],
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=roots,
        message_handler=message,
    )


class Session:
    def __init__(self, client, group):
        self.client, self.group, self.calls = client, group, {}

    async def list(self, _id, kind):
        verb = getattr(self.client, "list_resource_templates" if kind == "templates" else f"list_{kind}")
        found, cursor = [], None
        while True:
            try:
                page = await verb(cursor=cursor, cache_mode="refresh")
            except MCPError as error:
                if error.code == types.METHOD_NOT_FOUND:
                    return []
                raise
            found += [plain(item) for item in getattr(page, PAGES[kind])]
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def call(self, call, name, args, progress):
        async def report(value, _total, _message):
            say(report="progress", call=call, progress=value)

        with anyio.CancelScope() as scope:
            self.calls[call] = scope
            result = await self.client.call_tool(name, args, progress_callback=report if progress else None)
            return plain(result)
        raise RuntimeError("cancelled")

    async def cancel(self, _id, call):
        self.calls[call].cancel()

    async def read(self, _id, uri):
        return plain(await self.client.read_resource(uri, cache_mode="refresh"))

    async def prompt(self, _id, name, args):
        return plain(await self.client.get_prompt(name, args))

    async def complete(self, _id, ref, argument, context=None):
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return plain(await self.client.complete(kind(**ref), argument, context))

    async def watch(self, _id, kind):
        """On a modern connection changes come on a stream that has to be opened; on a legacy one they just come."""
        if self.client.protocol_version < "2026":
            return
        await self.group.start(self.listen, kind)

    async def listen(self, kind, *, task_status):
        async with self.client.listen(**{f"{kind}_list_changed": True}) as events:
            task_status.started()
            async for _event in events:
                say(report="changed", kind=kind)

    async def answer(self, request):
        number, op = request.pop("id"), request.pop("op")
        try:
            say(id=number, ok=await getattr(self, op)(number, **request))
        except MCPError as error:
            say(id=number, error=str(error), code=error.code)
        except Exception as error:  # the other side decides what a failure means
            say(id=number, error=f"{type(error).__name__}: {error}")


async def main(mode):
    lines = anyio.wrap_file(sys.stdin)
    first = json.loads(await lines.readline())
    try:
        client = await client_for(mode, first).__aenter__()
    except BaseException as error:
        say(id=first["id"], error=f"{type(error).__name__}: {error}")
        raise
    say(id=first["id"], ok={"version": client.protocol_version})
    async with anyio.create_task_group() as group:
        session = Session(client, group)
        async for line in lines:
            group.start_soon(session.answer, json.loads(line))
        group.cancel_scope.cancel()
    await client.__aexit__(None, None, None)


anyio.run(main, sys.argv[1])
