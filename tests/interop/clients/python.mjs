// The official Python SDK, driven through python_driver.py: one JSON object a line each way.
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { bell, REQUEST_MS } from './common.mjs';

const DRIVER = fileURLToPath(new URL('./python_driver.py', import.meta.url));
const PYTHON = `${process.env.INTEROP_CACHE}/python/bin/python`;

// The driver's end of the line: requests by number, and what it reports on its own.
function driver(mode, onReport) {
  const child = spawn(PYTHON, ['-u', '-W', 'ignore', DRIVER, mode], { stdio: ['pipe', 'pipe', 'pipe'] });
  const waiting = new Map();
  let next = 1;
  let errors = '';
  child.stderr.on('data', (text) => (errors = (errors + text).slice(-2000)));
  createInterface({ input: child.stdout }).on('line', (line) => {
    const message = JSON.parse(line);
    if (message.report) return onReport(message);
    const { resolve, reject } = waiting.get(message.id);
    waiting.delete(message.id);
    if ('ok' in message) resolve(message.ok);
    else reject(Object.assign(new Error(message.error), { code: message.code }));
  });
  const gone = new Promise((resolve) => child.on('close', resolve));
  gone.then((code) => {
    for (const { reject } of waiting.values()) reject(new Error(`the Python driver ended (${code}): ${errors}`));
    waiting.clear();
  });
  return {
    ask: (op, args = {}, id = next++) => {
      const answer = new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
      child.stdin.write(`${JSON.stringify({ id, op, ...args })}\n`);
      return answer;
    },
    reserve: () => next++,
    end: () => (child.stdin.end(), gone),
    kill: () => child.kill('SIGKILL'),
  };
}

export const openWith = (mode) => async function open(target, { name, answers }) {
  const session = { asked: [] };
  const bells = { tools: bell(), prompts: bell(), resources: bell() };
  const progress = new Map();
  const line = driver(mode, (message) => {
    if (message.report === 'asked') session.asked.push({ method: message.method, params: message.params });
    if (message.report === 'changed') bells[message.kind].ring();
    if (message.report === 'progress') progress.get(message.call)?.(message.progress);
  });
  const { version } = await line.ask('connect', { target, name, answers, timeout: REQUEST_MS / 1000 }).catch((error) => {
    line.kill();
    throw error;
  });
  return Object.assign(session, {
    version,
    list: (kind) => line.ask('list', { kind }),
    call: (tool, args, { onProgress, signal } = {}) => {
      const id = line.reserve();
      if (onProgress) progress.set(id, onProgress);
      signal?.addEventListener('abort', () => line.ask('cancel', { call: id }));
      return line.ask('call', { name: tool, args, progress: Boolean(onProgress) }, id);
    },
    read: (uri) => line.ask('read', { uri }),
    prompt: (prompt, args) => line.ask('prompt', { name: prompt, args }),
    complete: (ref, argument, context) => line.ask('complete', { ref, argument, context }),
    watch: async (kind) => {
      await line.ask('watch', { kind });
      return bells[kind].listen();
    },
    close: async () => {
      const late = setTimeout(line.kill, 10_000);
      await line.end();
      clearTimeout(late);
    },
  });
};
