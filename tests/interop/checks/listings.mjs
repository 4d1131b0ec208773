// What a client is shown through the gateway is what it is shown by each server, one by one.
import assert from 'node:assert/strict';

const KINDS = { tools: 'name', prompts: 'name', resources: 'uri', templates: 'uriTemplate' };

// The gateway offers no tool-level task support, so it takes this field away (protocol: a client would believe it).
const WITHHELD = ['execution'];

// What the checks themselves have added to a server; it stays for the clients that come later.
const added = (item) => item.uri?.includes('demo://resource/session/') ?? false;

export async function listAll(servers, door) {
  const lists = {};
  for (const { key } of servers) {
    lists[key] = {};
    for (const kind of Object.keys(KINDS)) lists[key][kind] = await door.session(key).list(kind);
  }
  return lists;
}

function expected(item, kind, key, { door, gateway }) {
  const withheld = gateway ? WITHHELD : [];
  const shown = Object.fromEntries(Object.entries(item).filter(([field]) => !withheld.includes(field)));
  const id = KINDS[kind];
  shown[id] = id === 'name' ? door.name(key, item.name) : door.uri(key, item[id]);
  return shown;
}

function compare(kind, key, wanted, found) {
  const id = KINDS[kind];
  const names = (items) => items.map((item) => item[id]);
  assert.deepEqual(names(found), names(wanted), `${kind} of ${key}: other names, number or order`);
  wanted.forEach((item, i) => assert.deepEqual(found[i], item, `${item[id]} of ${key} changed on its way`));
}

const shown = async (session, kind) => (await session.list(kind)).filter((item) => !added(item));

// `reference` holds each server's own lists, taken by the same SDK on a direct connection.
const sameList = (kind) => async (world) => {
  const { servers, door, reference } = world;
  const want = (key) => reference[key][kind].map((item) => expected(item, kind, key, world));
  if (!door.merged) {
    for (const { key } of servers) compare(kind, key, want(key), await shown(door.session(key), kind));
    return;
  }
  const all = await shown(door.session(), kind);
  const id = KINDS[kind];
  let counted = 0;
  for (const { key } of servers) {
    const start = id === 'name' ? `${key}__` : `${key}+`;
    const own = all.filter((item) => item[id].startsWith(start));
    compare(kind, key, want(key), own);
    counted += own.length;
  }
  assert.equal(all.length, counted, `the merged list of ${kind} holds entries of no server`);
};

export const listings = Object.keys(KINDS).map((kind) => ({ name: `list ${kind}`, run: sameList(kind) }));
