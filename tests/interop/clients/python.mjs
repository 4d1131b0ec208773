// The official Python SDK, driven through python_driver.py: one JSON object a line each way.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { bells, REQUEST_MS } from './common.mjs';

const DRIVER = fileURLToPath(new URL('./python_driver.py', import.meta.url));
const PYTHON = `${process.env.INTEROP_CACHE}/python/bin/python`;
const END_MS = 10_000;

// One driver process: the requests that wait, by number, and the sessions that it reports to.
function startDriver(mode) {
  const child = spawn(PYTHON, ['-u', '-W', 'ignore', DRIVER, mode], { stdio: ['pipe', 'pipe', 'pipe'] });
  const waiting = new Map();
  const reports = new Map();
  let next = 1;
  let errors = '';
  child.stdin.on('error', () => {});
  child.stderr.on('data', (text) => (errors = (errors + text).slice(-2000)));
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    if (message.report) return reports.get(message.session)?.(message);
    const { resolve, reject } = waiting.get(message.id);
    waiting.delete(message.id);
    if ('ok' in message) resolve(message.ok);
    else reject(Object.assign(new Error(message.error), { code: message.code }));
  });
  const gone = new Promise((resolve) => child.on('close', resolve));
  gone.then((code) => waiting.forEach(({ reject }) => reject(new Error(`the Python driver ended (${code}): ${errors}`))));
  return {
    reserve: () => next++,
    reports,
    ask: (id, op, args) => {
      const answer = new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
      child.stdin.write(`${JSON.stringify({ id, op, ...args })}\n`);
      return answer;
    },
    end: async () => {
      const insist = setTimeout(() => child.kill('SIGKILL'), END_MS);
      child.stdin.end();
      await gone;
      clearTimeout(insist);
    },
  };
}

// The driver lives as long as one of its sessions.
function lease(mode) {
  let driver;
  let holders = 0;
  return {
    take: () => {
      holders += 1;
      return (driver ??= startDriver(mode));
    },
    give: async () => {
      holders -= 1;
      if (holders > 0) return;
      const last = driver;
      driver = undefined;
      await last.end();
    },
  };
}

export function openWith(mode) {
  const { take, give } = lease(mode);
  return async function open(target, { name, answers }) {
    const driver = take();
    const number = driver.reserve();
    const asked = [];
    const { ring, listen } = bells();
    const progress = new Map();
    driver.reports.set(number, (message) => {
      if (message.report === 'asked') asked.push({ method: message.method, params: message.params });
      if (message.report === 'changed') ring(message.what);
      if (message.report === 'progress') progress.get(message.call)?.(message.progress);
    });
    const options = { target, name, answers, timeout: REQUEST_MS / 1000 };
    const { version } = await driver.ask(number, 'connect', options).catch(async (error) => {
      await give();
      throw error;
    });
    const ask = (op, args = {}, id = driver.reserve()) => driver.ask(id, op, { session: number, ...args });
    return {
      asked,
      version,
      list: (kind) => ask('list', { kind }),
      call: (tool, args, { onProgress, signal } = {}) => {
        const id = driver.reserve();
        if (onProgress) progress.set(id, onProgress);
        signal?.addEventListener('abort', () => ask('cancel', { call: id }));
        return ask('call', { name: tool, args, progress: Boolean(onProgress) }, id);
      },
      read: (uri) => ask('read', { uri }),
      prompt: (prompt, args) => ask('prompt', { name: prompt, args }),
      complete: (ref, argument, context) => ask('complete', { ref, argument, context }),
      watch: async (kind) => {
        await ask('watch', { kind });
        return listen(kind);
      },
      subscribe: async (uri) => {
        const next = listen(uri);
        await ask('subscribe', { uri });
        return next;
      },
      close: () => ask('close').finally(give),
    };
  };
}
