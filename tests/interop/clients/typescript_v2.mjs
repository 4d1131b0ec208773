// The official TypeScript SDK, version 2: both eras. `versionNegotiation.mode` chooses: 'legacy' (the default),
// 'auto' (probe, then fall back) or { pin: '2026-07-28' } (modern or nothing).
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answersTo, bells, CAPABILITIES, emptyIfUnknown, REQUEST_MS } from './common.mjs';

function transportTo(target) {
  if (target.sse) return new SSEClientTransport(new URL(target.url));
  if (target.url) return new StreamableHTTPClientTransport(new URL(target.url));
  return new StdioClientTransport({ ...target, stderr: 'ignore' });
}

// A list method without a cursor walks all pages; the cache would hide what the gateway answers.
const FRESH = { cacheMode: 'refresh', timeout: REQUEST_MS };
const LISTS = {
  tools: async (client) => (await client.listTools({}, FRESH)).tools,
  prompts: async (client) => (await client.listPrompts({}, FRESH)).prompts,
  resources: async (client) => (await client.listResources({}, FRESH)).resources,
  templates: async (client) => (await client.listResourceTemplates({}, FRESH)).resourceTemplates,
};

export const openWith = (mode) => async function open(target, { name, answers }) {
  const client = new Client(
    { name, version: '1.0.0' },
    { capabilities: CAPABILITIES, versionNegotiation: { mode } },
  );
  const session = { asked: [] };
  const answer = answersTo(session, answers);
  client.setRequestHandler('elicitation/create', answer.elicit);
  client.setRequestHandler('sampling/createMessage', answer.sample);
  client.setRequestHandler('roots/list', answer.roots);
  const { ring, listen } = bells();
  for (const kind of ['tools', 'prompts', 'resources']) {
    client.setNotificationHandler(`notifications/${kind}/list_changed`, () => ring(kind));
  }
  client.setNotificationHandler('notifications/resources/updated', ({ params }) => ring(params.uri));
  const transport = transportTo(target);
  await client.connect(transport, { timeout: REQUEST_MS });
  const modern = client.getProtocolEra() === 'modern';
  return Object.assign(session, {
    version: client.getNegotiatedProtocolVersion(),
    list: (kind) => emptyIfUnknown(() => LISTS[kind](client)),
    call: (tool, args, { onProgress, signal } = {}) =>
      client.callTool({ name: tool, arguments: args }, { onprogress: onProgress, signal, timeout: REQUEST_MS }),
    read: (uri) => client.readResource({ uri }, FRESH),
    prompt: (prompt, args) => client.getPrompt({ name: prompt, arguments: args }),
    complete: (ref, argument, context) =>
      client.complete({ ref, argument, ...(context && { context: { arguments: context } }) }),
    watch: async (kind) => {
      if (modern) await client.listen({ [`${kind}ListChanged`]: true });
      return listen(kind);
    },
    subscribe: async (uri) => {
      const next = listen(uri);
      await (modern ? client.listen({ resourceSubscriptions: [uri] }) : client.subscribeResource({ uri }));
      return next;
    },
    close: async () => {
      if (!modern && transport.terminateSession) await transport.terminateSession().catch(() => {});
      await client.close();
    },
  });
};
