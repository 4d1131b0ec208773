// The suite: starts the real servers and one Manifold, takes every client through every check, prints one table.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import * as python from './clients/python.mjs';
import * as v1 from './clients/typescript_v1.mjs';
import * as v2 from './clients/typescript_v2.mjs';
import { calls } from './checks/calls.mjs';
import { conversations } from './checks/conversations.mjs';
import { listAll, listings } from './checks/listings.mjs';
import { aloneTargets, directTargets, gatewayDoor, separateDoor } from './door.mjs';
import { startGateway } from './gateway.mjs';
import { killAll, stopAll } from './processes.mjs';
import { printReport } from './report.mjs';
import { startServers } from './servers.mjs';

const STEP_MS = 45_000;
// Past this every step that is left fails at once, so that a slow run still ends with its table.
const RUN_MS = 420_000;
const startedAt = Date.now();
const MODERN = '2026-07-28';

// `direct` is how the same SDK reaches a server of either era.
const CLIENTS = [
  { name: 'ts1 legacy', open: v1.open },
  { name: 'ts2 legacy', open: v2.openWith('legacy') },
  { name: 'ts2 modern', open: v2.openWith({ pin: MODERN }), direct: v2.openWith('auto'), modern: true },
  { name: 'py2 legacy', open: python.openWith('legacy') },
  { name: 'py2 modern', open: python.openWith(MODERN), direct: python.openWith('auto'), modern: true },
];

const optionsFor = (name) => ({ name, answers: { elicit: { name }, sample: `spoken by ${name}` } });

function within(ms, what, work) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`${what}: not within ${ms} ms`)), ms)));
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

// Runs one step; a failure is a row of the report, not the end of the run.
async function step(results, client, check, work) {
  const begin = Date.now();
  const result = { client, check };
  results.push(result);
  try {
    const left = startedAt + RUN_MS - Date.now();
    if (left < 0) throw new Error(`the whole run took more than ${RUN_MS} ms`);
    return await within(Math.min(STEP_MS, left), check, work());
  } catch (error) {
    result.reason = error?.stack ?? String(error);
    return undefined;
  } finally {
    console.error(`${result.reason ? 'FAILED' : 'ok    '} ${client}: ${check} (${Date.now() - begin} ms)`);
  }
}

async function runChecks(results, world, checks, label = '') {
  for (const { name, run } of checks) await step(results, world.client.name, `${label}${name}`, () => run(world));
}

async function runClient(results, client, place, gateway) {
  const direct = client.direct ?? client.open;
  const reach = (name, keys) =>
    gateway
      ? gatewayDoor(client, gateway, optionsFor(name))
      : separateDoor(direct, directTargets(place.servers, keys), optionsFor(name));
  const reference = await step(results, client.name, 'direct lists', async () => {
    const door = await separateDoor(direct, directTargets(place.servers), optionsFor(client.name));
    return listAll(place.servers, door).finally(door.close);
  });
  const door = await step(results, client.name, 'connect', async () => {
    const opened = await reach(client.name);
    if (!gateway) return opened;
    const version = opened.session().version;
    const wanted = client.modern ? version === MODERN : version !== MODERN;
    if (!wanted) throw new Error(`this client has to speak the other era, but negotiated ${version}`);
    return opened;
  });
  if (!reference || !door) return;
  const world = { ...place, gateway, client, reference, door, another: reach };
  await runChecks(results, world, [...listings, ...calls, ...conversations]);
  await step(results, client.name, 'disconnect', door.close);
  if (!gateway) return;
  const alone = await step(results, client.name, 'alone: connect', () =>
    separateDoor(client.open, aloneTargets(place.servers, gateway), optionsFor(client.name)));
  if (!alone) return;
  await runChecks(results, { ...world, door: alone }, [...listings, ...calls], 'alone: ');
  await step(results, client.name, 'alone: disconnect', alone.close);
}

// The TypeScript SDK v2 tells each list that it does not ask for through here.
console.debug = () => {};

async function main(args) {
  const direct = args.includes('--direct');
  const wanted = args.filter((arg) => !arg.startsWith('--'));
  const clients = CLIENTS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
  if (clients.length === 0) throw new Error(`no such client; there are ${CLIENTS.map(({ name }) => name).join(', ')}`);
  const results = [];
  const place = await startServers();
  process.once('exit', place.clean);
  try {
    mkdirSync(join(process.env.INTEROP_CACHE, 'logs'), { recursive: true });
    const log = join(process.env.INTEROP_CACHE, 'logs/manifold.log');
    const gateway = direct ? undefined : await startGateway(process.env.MANIFOLD, place.servers, place.folder, log);
    for (const client of clients) await runClient(results, client, place, gateway);
    if (gateway) await step(results, 'manifold', 'stops and leaves nothing', gateway.end);
    if (printReport(results, [...clients.map(({ name }) => name), ...(gateway ? ['manifold'] : [])]) === 0) return 0;
    if (gateway) console.log(`The log of manifold is ${log}`);
    return 1;
  } finally {
    await stopAll();
  }
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    console.error(`interop: stopped by ${signal}`);
    process.exit(1);
  });
}
process.once('exit', killAll);
main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error) => {
    console.error(`interop: ${error.stack}`);
    process.exit(1);
  },
);
