// One Manifold process: started on free ports, found by its start-up lines, ready when it says so.
import { createWriteStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { alive, descendants, start, stop, until } from './processes.mjs';
import { configFor } from './servers.mjs';

const READY_MS = 60_000;
const GONE_MS = 10_000;

// The start-up lines name the real addresses: `http://…:PORT/mcp`, and one with the word `admin` in it.
export function addressesIn(text) {
  const mcp = text.match(/http:\/\/127\.0\.0\.1:\d+(?=\/mcp)/)?.[0];
  const adminLine = text.split('\n').find((line) => /admin/i.test(line) && /http:\/\/127\.0\.0\.1:\d+/.test(line));
  const admin = adminLine?.match(/http:\/\/127\.0\.0\.1:\d+/)[0];
  return mcp && admin ? { mcp: `${mcp}/mcp`, admin } : undefined;
}

export async function startGateway(binary, servers, folder, logFile) {
  const config = join(folder, 'manifold.yaml');
  writeFileSync(config, configFor(servers));
  const child = start(binary, ['serve', '--config', config], { cwd: folder });
  const log = createWriteStream(logFile);
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (text) => ((said += said.length < 100_000 ? text : ''), log.write(text)));
  }
  const running = () => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) {
      throw new Error(`${binary} ended before it was ready:\n${said}`);
    }
  };
  const addresses = await until('start-up lines with both addresses', READY_MS, () => (running(), addressesIn(said)));
  await until('GET /readyz to answer 200', READY_MS, async () => {
    running();
    const answer = await fetch(`${addresses.admin}/readyz`).catch(() => undefined);
    return answer?.status === 200;
  });
  return { ...addresses, end: () => endGateway(child) };
}

// A gateway that is asked to stop ends well and takes the servers that it started with it.
async function endGateway(child) {
  const below = descendants(child.pid);
  const how = await stop(child, GONE_MS);
  if (how !== 0) throw new Error(`manifold ended with ${how} after SIGTERM`);
  await until('the servers that manifold started to be gone', GONE_MS, () => !below.some(alive));
}
