// The reference server of the suite's server scenarios, on the official SDK: dual era, over HTTP or stdio.
//
//   node fixture.mjs http      prints its URL on standard output
//   node fixture.mjs stdio
//
// What it offers is what the scenarios' descriptions ask for, see offer.mjs. It ends with its standard input.

import { createServer } from 'node:http';
import { randomUUID } from 'node:crypto';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
    createMcpHandler,
    hostHeaderValidationResponse,
    isLegacyRequest,
    localhostAllowedHostnames,
    localhostAllowedOrigins,
    originValidationResponse,
    WebStandardStreamableHTTPServerTransport
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { makeServer } from './offer.mjs';

/** Sessions of the legacy era by their id. */
const sessions = new Map();

async function legacy(request) {
    const id = request.headers.get('mcp-session-id');
    const known = id === null ? undefined : sessions.get(id);
    if (known) return known.handleRequest(request);
    if (id !== null) return new Response('no such session', { status: 404 });
    const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: made => void sessions.set(made, transport),
        onsessionclosed: ended => void sessions.delete(ended)
    });
    // Nobody is told of changes over a legacy session: no scenario asks for it.
    await makeServer({ era: 'legacy' }, { toolsChanged() {}, promptsChanged() {} }).connect(transport);
    return transport.handleRequest(request);
}

function serveHttp() {
    const modern = createMcpHandler(context => makeServer(context, modern.notify), { legacy: 'reject' });
    const fetch = async request => {
        const rejected =
            hostHeaderValidationResponse(request, localhostAllowedHostnames()) ??
            originValidationResponse(request, localhostAllowedOrigins());
        if (rejected) return rejected;
        return (await isLegacyRequest(request)) ? legacy(request) : modern.fetch(request);
    };
    const server = createServer(toNodeHandler({ fetch }));
    server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
}

switch (process.argv[2]) {
    case 'http':
        process.stdin.resume().on('end', () => process.exit(0));
        serveHttp();
        break;
    case 'stdio':
        serveStdio(context => makeServer(context));
        break;
    default:
        console.error('fixture: say http or stdio');
        process.exit(2);
}
