// The official TypeScript SDK, version 1: legacy only.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';
import { answersTo, bells, CAPABILITIES, emptyIfUnknown, REQUEST_MS } from './common.mjs';

function transportTo(target) {
  if (target.sse) return new SSEClientTransport(new URL(target.url));
  if (target.url) return new StreamableHTTPClientTransport(new URL(target.url));
  return new StdioClientTransport({ ...target, stderr: 'ignore' });
}

const LISTS = {
  tools: ['listTools', 'tools', types.ToolListChangedNotificationSchema],
  prompts: ['listPrompts', 'prompts', types.PromptListChangedNotificationSchema],
  resources: ['listResources', 'resources', types.ResourceListChangedNotificationSchema],
  templates: ['listResourceTemplates', 'resourceTemplates'],
};

async function everyPage(client, [method, field]) {
  const all = [];
  let cursor;
  do {
    const page = await client[method](cursor === undefined ? {} : { cursor });
    all.push(...page[field]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return all;
}

export async function open(target, { name, answers }) {
  const client = new Client({ name, version: '1.0.0' }, { capabilities: CAPABILITIES });
  const session = { asked: [] };
  const answer = answersTo(session, answers);
  client.setRequestHandler(types.ElicitRequestSchema, answer.elicit);
  client.setRequestHandler(types.CreateMessageRequestSchema, answer.sample);
  client.setRequestHandler(types.ListRootsRequestSchema, answer.roots);
  const { ring, listen } = bells();
  for (const [kind, [, , schema]] of Object.entries(LISTS)) {
    if (schema) client.setNotificationHandler(schema, () => ring(kind));
  }
  client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => ring(params.uri));
  const transport = transportTo(target);
  await client.connect(transport, { timeout: REQUEST_MS });
  return Object.assign(session, {
    version: transport.protocolVersion ?? transport._protocolVersion ?? 'legacy',
    list: (kind) => emptyIfUnknown(() => everyPage(client, LISTS[kind])),
    call: (tool, args, { onProgress, signal } = {}) =>
      client.callTool({ name: tool, arguments: args }, undefined, {
        onprogress: onProgress,
        signal,
        timeout: REQUEST_MS,
      }),
    read: (uri) => client.readResource({ uri }),
    prompt: (prompt, args) => client.getPrompt({ name: prompt, arguments: args }),
    complete: (ref, argument, context) =>
      client.complete({ ref, argument, ...(context && { context: { arguments: context } }) }),
    watch: async (kind) => listen(kind),
    subscribe: async (uri) => {
      const next = listen(uri);
      await client.subscribeResource({ uri });
      return next;
    },
    close: async () => {
      if (transport.terminateSession) await transport.terminateSession().catch(() => {});
      await client.close();
    },
  });
}
