// What is more than a question and an answer: progress, cancelling, changes, and servers that ask back.
import assert from 'node:assert/strict';
import { until } from '../processes.mjs';
import { textOf } from './calls.mjs';

async function progress({ door }) {
  for (const key of ['everything', 'everything-http']) {
    const seen = [];
    const onProgress = (value) => seen.push(typeof value === 'object' ? value.progress : value);
    const args = { duration: 1, steps: 5 };
    const result = await door.session(key).call(door.name(key, 'trigger-long-running-operation'), args, { onProgress });
    assert.ok(textOf(result).includes('completed'), textOf(result));
    // The TypeScript SDK v2 forgets a progress that comes in one read with the result, even without a gateway.
    assert.ok(seen.length >= 4, `progress of ${key} arrived ${seen.length} times`);
    assert.deepEqual(seen, [1, 2, 3, 4, 5].slice(0, seen.length), `progress of ${key}`);
  }
}

// The fetch server holds a connection to the page that never answers; cancelling has to make it hang up.
async function cancel({ door, page }) {
  const session = door.session('fetch');
  const fetch = door.name('fetch', 'fetch');
  const before = { ...page.seen };
  const stop = new AbortController();
  const call = session.call(fetch, { url: `${page.url}/slow` }, { signal: stop.signal });
  const outcome = call.then(() => 'answered', () => 'refused');
  await until('the call to reach the page', 10_000, () => page.seen.slow > before.slow);
  stop.abort();
  assert.equal(await outcome, 'refused', 'the cancelled call was answered');
  await until('the server to stop working on the cancelled call', 10_000, () => page.seen.left > before.left);
  const next = await session.call(fetch, { url: `${page.url}/` });
  assert.ok(!next.isError, `the next call failed: ${textOf(next)}`);
}

// This tool adds a resource to its server, which then says so.
async function listChanged({ door, client }) {
  const session = door.session('changing');
  const name = `${client.name.replaceAll(' ', '-')}.gz`;
  const next = await session.watch('resources');
  const args = { name, data: 'data:text/plain,hello', outputType: 'resourceLink' };
  const result = await session.call(door.name('changing', 'gzip-file-as-resource'), args);
  const link = result.content.find((block) => block.type === 'resource_link');
  await next(10_000);
  const uris = (await session.list('resources')).map((resource) => resource.uri);
  assert.ok(uris.includes(link.uri), `the new resource ${link.uri} is not listed after list_changed`);
  const { contents } = await session.read(link.uri);
  assert.ok(contents[0].blob.length > 0, 'the new resource is empty');
}

// The server's tool switches updates on and off; switched on, it reports every subscribed resource at once.
async function resourceUpdates({ door }) {
  const key = 'everything';
  const session = door.session(key);
  const toggle = () => session.call(door.name(key, 'toggle-subscriber-updates'), {});
  const next = await session.subscribe(door.uri(key, 'demo://resource/dynamic/text/1'));
  await toggle();
  try {
    await next(10_000);
  } finally {
    await toggle();
  }
}

// The answer comes from the one who called; someone else who is connected is left in peace.
const asks = (tool, args, method) => async ({ door, client, another }) => {
  const keys = ['everything', 'everything-http', 'everything-sse'];
  const bystander = await another(`${client.name} bystander`, keys);
  try {
    for (const key of keys) {
      const { asked } = door.session(key);
      const before = asked.length;
      const result = await door.session(key).call(door.name(key, tool), args);
      assert.ok(textOf(result).includes(client.name), `${tool} of ${key}: ${textOf(result)}`);
      assert.deepEqual(asked.slice(before).map((question) => question.method), [method]);
    }
    for (const key of keys) assert.deepEqual(bystander.session(key).asked, [], 'another client was asked');
  } finally {
    await bystander.close();
  }
};

// Two calls that are sent together overlap nearly always, and surely once in this many times.
const ROUNDS = 10;

// Over HTTP a question comes on the stream of the call that it belongs to, so both can be open at once.
async function twoAtOnce({ door, client, another }) {
  const key = 'everything-http';
  const second = await another(`${client.name} second`, [key]);
  try {
    const ask = (one) => one.session(key).call(one.name(key, 'trigger-elicitation-request'), {});
    for (let round = 0; round < ROUNDS; round += 1) {
      const [mine, other] = await Promise.all([ask(door), ask(second)]);
      assert.ok(!textOf(mine).includes('second'), `the first caller got ${textOf(mine)}`);
      assert.ok(textOf(other).includes(`${client.name} second`), `the second caller got ${textOf(other)}`);
    }
  } finally {
    await second.close();
  }
}

export const conversations = [
  { name: 'progress', run: progress },
  { name: 'cancel a call', run: cancel },
  { name: 'list_changed', run: listChanged },
  { name: 'resource updates', run: resourceUpdates },
  { name: 'elicitation', run: asks('trigger-elicitation-request', {}, 'elicitation/create') },
  { name: 'sampling', run: asks('trigger-sampling-request', { prompt: 'say', maxTokens: 9 }, 'sampling/createMessage') },
  { name: 'two elicitations at once', run: twoAtOnce },
];
