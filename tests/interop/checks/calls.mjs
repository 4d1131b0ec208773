// One real call and more per server, and everything that is asked for by name or URI.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { PAGE_TEXT } from '../page.mjs';
import { COMMIT_TEXT, FILE_TEXT } from '../servers.mjs';

export const textOf = (result) => result.content.map((block) => block.text ?? '').join('\n');

async function call(door, key, tool, args, expectedText) {
  const result = await door.session(key).call(door.name(key, tool), args);
  assert.ok(!result.isError, `${tool} of ${key} failed: ${textOf(result)}`);
  assert.ok(textOf(result).includes(expectedText), `${tool} of ${key} answered ${textOf(result).slice(0, 200)}`);
  return result;
}

async function everything({ door }, key) {
  await call(door, key, 'echo', { message: 'höre 👂' }, 'höre 👂');
  await call(door, key, 'get-sum', { a: 2, b: 40 }, '42');
  const { structuredContent } = await call(door, key, 'get-structured-content', { location: 'Chicago' }, 'temperature');
  assert.equal(typeof structuredContent?.temperature, 'number', 'structured content was lost');
}

async function files({ door, files: folder }) {
  await call(door, 'files', 'list_directory', { path: folder }, 'note.txt');
  await call(door, 'files', 'read_text_file', { path: join(folder, 'note.txt') }, FILE_TEXT);
}

let visits = 0;

// The server ignores a name that it knows already, so every visit has its own.
async function memory({ door }) {
  const name = `visit ${(visits += 1)}`;
  const entities = [{ name, entityType: 'visit', observations: [`seen on ${name}`] }];
  await call(door, 'memory', 'create_entities', { entities }, name);
  await call(door, 'memory', 'read_graph', {}, `seen on ${name}`);
}

async function time({ door }) {
  const args = { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' };
  await call(door, 'time', 'convert_time', args, '21:00');
}

async function git({ door, repository }) {
  await call(door, 'git', 'git_status', { repo_path: repository }, 'nothing to commit');
  await call(door, 'git', 'git_log', { repo_path: repository }, COMMIT_TEXT);
}

const fetchPage = ({ door, page }) => call(door, 'fetch', 'fetch', { url: `${page.url}/` }, PAGE_TEXT);

async function toolError({ door }) {
  const result = await door.session('files').call(door.name('files', 'read_text_file'), { path: '/nowhere/at/all' });
  assert.equal(result.isError, true, 'a failing tool has to come back as a result with isError');
}

async function manyAtOnce({ door }) {
  const keys = ['everything', 'everything-http', 'everything-sse'];
  const one = (i) => call(door, keys[i % keys.length], 'echo', { message: `number ${i}.` }, `number ${i}.`);
  await Promise.all(Array.from({ length: 30 }, (_, i) => one(i)));
}

async function readResource({ door, reference }) {
  const key = 'everything';
  for (const original of [reference[key].resources[0].uri, 'demo://resource/dynamic/text/7']) {
    const uri = door.uri(key, original);
    const { contents } = await door.session(key).read(uri);
    assert.equal(contents[0].uri, uri, 'the contents name another URI than was asked for');
    assert.ok(contents[0].text.length > 0, 'the contents are empty');
  }
}

async function followLinks({ door }) {
  const key = 'everything';
  const result = await door.session(key).call(door.name(key, 'get-resource-links'), { count: 2 });
  const links = result.content.filter((block) => block.type === 'resource_link');
  assert.equal(links.length, 2, 'two links were asked for');
  for (const { uri } of links) {
    assert.ok(uri.startsWith(door.uri(key, 'demo://')), `the link ${uri} is not one that this endpoint serves`);
    assert.equal((await door.session(key).read(uri)).contents[0].uri, uri);
  }
}

async function getPrompt({ door }) {
  const session = door.session('everything');
  const plain = await session.prompt(door.name('everything', 'args-prompt'), { city: 'Oslo', state: 'Norway' });
  assert.ok(plain.messages[0].content.text.includes('Oslo, Norway'), 'the arguments did not arrive');
  const args = { resourceType: 'Text', resourceId: '3' };
  const embedded = await session.prompt(door.name('everything', 'resource-prompt'), args);
  assert.equal(embedded.messages[1].content.resource.uri, door.uri('everything', 'demo://resource/dynamic/text/3'));
}

async function complete({ door }) {
  const session = door.session('everything');
  const prompt = { type: 'ref/prompt', name: door.name('everything', 'completable-prompt') };
  const people = await session.complete(prompt, { name: 'name', value: 'E' }, { department: 'Sales' });
  assert.deepEqual(people.completion.values, ['Eve']);
  const template = { type: 'ref/resource', uri: door.uri('everything', 'demo://resource/dynamic/text/{resourceId}') };
  const ids = await session.complete(template, { name: 'resourceId', value: '4' });
  assert.deepEqual(ids.completion.values, ['4']);
}

export const calls = [
  { name: 'call everything (stdio)', run: (world) => everything(world, 'everything') },
  { name: 'call everything (HTTP)', run: (world) => everything(world, 'everything-http') },
  { name: 'call everything (SSE)', run: (world) => everything(world, 'everything-sse') },
  { name: 'call filesystem', run: files },
  { name: 'call memory', run: memory },
  { name: 'call time', run: time },
  { name: 'call git', run: git },
  { name: 'call fetch', run: fetchPage },
  { name: 'a tool that fails', run: toolError },
  { name: '30 calls at once', run: manyAtOnce },
  { name: 'read a resource', run: readResource },
  { name: 'follow resource links', run: followLinks },
  { name: 'get a prompt', run: getPrompt },
  { name: 'complete an argument', run: complete },
];
