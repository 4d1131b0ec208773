"""Drives the official Python SDK for python.mjs: a JSON object a line on stdin, its answer and its reports on stdout.

One process holds any number of sessions, since importing the SDK costs a second of processor time. The one argument is
the SDK's `mode`: "legacy", "auto" or a modern revision such as "2026-07-28".
"""

import json
import os
import sys

import anyio
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

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


def client_for(mode, number, target, name, answers, timeout):
    async def elicit(_context, params):
        say(report="asked", session=number, method="elicitation/create", params=plain(params))
        return types.ElicitResult(action="accept", content=answers["elicit"])

    async def sample(_context, params):
        say(report="asked", session=number, method="sampling/createMessage", params=plain(params))
        text = types.TextContent(type="text", text=answers["sample"])
        return types.CreateMessageResult(role="assistant", model="interop", content=text)

    async def roots(_context):
        return types.ListRootsResult(roots=[])

    async def message(incoming):
        method = getattr(incoming, "method", "")
        if method.endswith("/list_changed"):
            say(report="changed", session=number, what=method.split("/")[1])
        if method == "notifications/resources/updated":
            say(report="changed", session=number, what=str(incoming.params.uri))

    return Client(
        transport_to(target),
        mode=mode,
        client_info=types.Implementation(name=name, version="1.0.0"),
        read_timeout_seconds=timeout,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=roots,
        message_handler=message,
    )


class Session:
    """One connection, and what can be asked of it."""

    def __init__(self, number, client, group):
        self.number, self.client, self.group = number, client, group
        self.calls, self.closing, self.closed = {}, anyio.Event(), anyio.Event()

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
            say(report="progress", session=self.number, call=call, progress=value)

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

    @property
    def modern(self):
        return self.client.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def watch(self, _id, kind):
        """On a modern connection changes come on a stream that has to be opened; on a legacy one they just come."""
        if self.modern:
            await self.group.start(self.listen, kind, {f"{kind}_list_changed": True})

    async def subscribe(self, _id, uri):
        if self.modern:
            await self.group.start(self.listen, uri, {"resource_subscriptions": [uri]})
        else:
            await self.client.subscribe_resource(uri)

    async def listen(self, what, notifications, *, task_status):
        async with self.client.listen(**notifications) as events:
            task_status.started()
            async for _event in events:
                say(report="changed", session=self.number, what=what)

    async def close(self, _id):
        self.closing.set()
        await self.closed.wait()


class Driver:
    def __init__(self, mode, group):
        self.mode, self.group, self.sessions = mode, group, {}

    async def connect(self, number, **options):
        """Answers when the session is open: a session number is the number of the request that opened it."""
        await self.group.start(self.hold, number, options)
        return {"session": number, "version": self.sessions[number].client.protocol_version}

    async def hold(self, number, options, *, task_status):
        async with client_for(self.mode, number, **options) as client, anyio.create_task_group() as group:
            session = self.sessions[number] = Session(number, client, group)
            task_status.started()
            await session.closing.wait()
            group.cancel_scope.cancel()
        session.closed.set()

    async def answer(self, request):
        number, op, session = request.pop("id"), request.pop("op"), request.pop("session", None)
        owner = self if session is None else self.sessions[session]
        try:
            say(id=number, ok=await getattr(owner, op)(number, **request))
        except MCPError as error:
            say(id=number, error=str(error), code=error.code)
        except Exception as error:  # the other side decides what a failure means
            say(id=number, error=f"{type(error).__name__}: {reason(error)}")


def reason(error):
    """A group of errors says nothing by itself; the first one inside does."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def main(mode):
    async with anyio.create_task_group() as group:
        driver = Driver(mode, group)
        async for line in anyio.wrap_file(sys.stdin):
            group.start_soon(driver.answer, json.loads(line))
        group.cancel_scope.cancel()


anyio.run(main, sys.argv[1])
