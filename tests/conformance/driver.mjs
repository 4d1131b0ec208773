// Manifold as the client under test: the suite starts this program with the URL of its mock server. It writes a
// configuration with that one server, starts Manifold, and plays the downstream client that makes the scenario happen.
//
//   MANIFOLD                            the binary
//   MCP_CONFORMANCE_SCENARIO            what to do, see SCENARIOS
//   MCP_CONFORMANCE_PROTOCOL_VERSION    the revision that the suite speaks; the downstream client speaks it too
//   MCP_CONFORMANCE_CONTEXT             JSON: calls to make

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const MODERN = '2026-07-28';
/** How long any one request may take: below the suite's own limit, so that a failure says what hung. */
const REQUEST_MS = 15_000;
/** How long Manifold may take to say where it serves, and to end. */
const PROCESS_MS = 10_000;

const within = (ms, what) => new Promise((_, reject) => setTimeout(reject, ms, new Error(`${what} took too long`)).unref());

/** Manifold with one server, called `peer`. */
async function startManifold(url, folder) {
    const config = {
        listen: '127.0.0.1:0',
        admin: { listen: '127.0.0.1:0' },
        mcpServers: { peer: { url, type: 'http' } }
    };
    const file = join(folder, 'manifold.json');
    await writeFile(file, JSON.stringify(config));
    const child = spawn(process.env.MANIFOLD, ['serve', '--config', file], { stdio: ['ignore', 'inherit', 'pipe'] });
    const lines = createInterface({ input: child.stderr });
    const said = (async () => {
        for await (const line of lines) {
            console.error(line);
            const endpoint = /^ {2}endpoint +(\S+)/.exec(line)?.[1];
            if (endpoint) return endpoint;
        }
        throw new Error('Manifold ended before it served');
    })();
    const endpoint = await Promise.race([said, within(PROCESS_MS, 'the start of Manifold')]);
    lines.on('line', line => console.error(line));
    return { child, endpoint: `${endpoint}/peer` };
}

async function stop(child) {
    if (child.exitCode !== null) return;
    child.kill('SIGTERM');
    await Promise.race([once(child, 'exit'), within(PROCESS_MS, 'the end of Manifold')]).catch(error => {
        child.kill('SIGKILL');
        throw error;
    });
}

/** What a form is answered with: each field's default, or something of its type. */
function fill(schema) {
    const blank = { string: 'text', integer: 1, number: 1, boolean: true, array: [] };
    const fields = Object.entries(schema.properties ?? {});
    return Object.fromEntries(fields.map(([name, field]) => [name, field.default ?? field.enum?.[0] ?? blank[field.type]]));
}

/** Arguments that a tool takes, by its schema. */
const argumentsFor = tool => fill(tool.inputSchema);

async function connect(endpoint, version, asked) {
    const mode = version === MODERN ? { pin: MODERN } : 'legacy';
    const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
    const client = new Client({ name: 'conformance-driver', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler('elicitation/create', async ({ params }) => {
        await asked(client);
        return { action: 'accept', content: fill(params.requestedSchema) };
    });
    client.setRequestHandler('roots/list', () => ({ roots: [] }));
    await client.connect(new StreamableHTTPClientTransport(new URL(endpoint)), { timeout: REQUEST_MS });
    return client;
}

const call = (client, name, args = {}) => client.callTool({ name, arguments: args }, { timeout: REQUEST_MS });
const tools = async client => (await client.listTools()).tools;

async function callEverything(client) {
    for (const tool of await tools(client)) await call(client, tool.name, argumentsFor(tool));
}

async function useEverything(client) {
    await callEverything(client);
    for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
    for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
}

/** Rounds of several tools; in the middle of each something else is called, which must not take anything along. */
async function keepStates(client) {
    for (const name of ['test_mrtr_echo_state', 'test_mrtr_no_state', 'test_mrtr_no_result_type']) await call(client, name);
}

async function echoSchema(client) {
    const [focal, echo] = await tools(client);
    await call(client, echo.name, { schema: focal.inputSchema });
}

const SCENARIOS = {
    initialize: tools,
    tools_call: client => call(client, 'add_numbers', { a: 5, b: 3 }),
    'elicitation-sep1034-client-defaults': callEverything,
    'sse-retry': client => call(client, 'test_reconnection'),
    'request-metadata': tools,
    'sep-2322-client-request-state': keepStates,
    'http-standard-headers': useEverything,
    'http-custom-headers': async (client, { toolCalls }) => {
        await tools(client);
        for (const { name, arguments: args } of toolCalls) await call(client, name, args);
    },
    'http-invalid-tool-headers': callEverything,
    'json-schema-ref-no-deref': tools,
    'json-schema-2020-12-preservation': echoSchema
};

const url = process.argv.at(-1);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const play = SCENARIOS[scenario];
if (!play) throw new Error(`driver: the scenario ${scenario} is not known`);
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}');
const between = scenario === 'sep-2322-client-request-state' ? client => call(client, 'test_mrtr_unrelated') : () => {};

const folder = await mkdtemp(join(tmpdir(), 'conformance-'));
let manifold;
try {
    manifold = await startManifold(url, folder);
    const client = await connect(manifold.endpoint, process.env.MCP_CONFORMANCE_PROTOCOL_VERSION, between);
    await play(client, context);
    await client.close();
} finally {
    if (manifold) await stop(manifold.child);
    await rm(folder, { recursive: true, force: true });
}
