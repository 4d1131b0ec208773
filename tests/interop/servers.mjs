// The real servers: what each needs on disk, how it is reached directly, and how a Manifold config names it.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { servePage } from './page.mjs';
import { freePort, start, until } from './processes.mjs';

const CACHE = process.env.INTEROP_CACHE;
const npm = (name) => join(CACHE, 'npm/node_modules/@modelcontextprotocol', name, 'dist/index.js');
const python = (name) => join(CACHE, 'python/bin', name);
const EVERYTHING = npm('server-everything');

export const FILE_TEXT = 'a line in a file';
export const COMMIT_TEXT = 'The first commit of a small repository';

function makeFolder() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'manifold-interop-')));
  const files = join(folder, 'files');
  const repository = join(folder, 'repository');
  mkdirSync(files);
  mkdirSync(repository);
  writeFileSync(join(files, 'note.txt'), FILE_TEXT);
  writeFileSync(join(repository, 'README'), 'small\n');
  const git = (...args) =>
    execFileSync('git', ['-c', 'user.name=Interop', '-c', 'user.email=interop@example.com', ...args], {
      cwd: repository,
      stdio: 'ignore',
      env: { ...process.env, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_SYSTEM: '/dev/null' },
    });
  git('init', '--quiet');
  git('add', 'README');
  git('commit', '--quiet', '-m', COMMIT_TEXT);
  return { folder, files, repository };
}

async function startEverything(transport, path) {
  const port = await freePort();
  const child = start(process.execPath, [EVERYTHING, transport], { env: { ...process.env, PORT: String(port) } });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said = (said + text).slice(-4000)));
  await until(`everything over ${transport} to listen`, 20_000, () => {
    if (child.exitCode !== null) throw new Error(`everything over ${transport} ended: ${said}`);
    return said.includes(`port ${port}`);
  });
  return `http://127.0.0.1:${port}${path}`;
}

const node = (...args) => ({ command: process.execPath, args });

export async function startServers() {
  const { folder, files, repository } = makeFolder();
  const page = await servePage();
  const memory = (file) => ({ ...node(npm('server-memory')), env: { MEMORY_FILE_PATH: join(folder, file) } });
  const http = { url: await startEverything('streamableHttp', '/mcp') };
  const sse = { url: await startEverything('sse', '/sse'), sse: true };
  // `direct` differs where one state must not be seen from both sides.
  const servers = [
    { key: 'everything', target: node(EVERYTHING, 'stdio') },
    { key: 'everything-http', target: http },
    { key: 'everything-sse', target: sse },
    { key: 'changing', target: node(EVERYTHING, 'stdio') },
    { key: 'files', target: node(npm('server-filesystem'), files) },
    { key: 'memory', target: memory('memory.jsonl'), direct: memory('memory-direct.jsonl') },
    { key: 'time', target: { command: python('mcp-server-time'), args: ['--local-timezone', 'UTC'] } },
    { key: 'git', target: { command: python('mcp-server-git'), args: ['--repository', repository] } },
    {
      key: 'fetch',
      target: {
        command: python('mcp-server-fetch'),
        args: ['--ignore-robots-txt', '--allow-private-ips'],
        env: { NO_PROXY: '127.0.0.1', no_proxy: '127.0.0.1' },
      },
    },
  ];
  const clean = () => (page.stop(), rmSync(folder, { recursive: true, force: true }));
  return { servers, page, folder, files, repository, clean };
}

// The config that a person would write for these servers. JSON is YAML.
export function configFor(servers) {
  const entry = ({ target }) => (target.url ? { url: target.url, ...(target.sse && { type: 'sse' }) } : target);
  return JSON.stringify(
    {
      listen: '127.0.0.1:0',
      admin: { listen: '127.0.0.1:0' },
      mcpServers: Object.fromEntries(servers.map((server) => [server.key, entry(server)])),
    },
    null,
    2,
  );
}
