// Every process that the suite starts, so that it can stop exactly those: by pid, never by name.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const GRACE_MS = 10_000;
const running = new Set();

export function start(command, args, options = {}) {
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options });
  child.ended = new Promise((resolve) => {
    child.on('exit', (code, signal) => resolve(signal ?? code));
    child.on('error', resolve);
  });
  running.add(child);
  child.ended.then(() => running.delete(child));
  return child;
}

// Asks, waits, then insists. Answers how it ended.
export async function stop(child, graceMs = GRACE_MS) {
  child.kill('SIGTERM');
  const insist = setTimeout(() => child.kill('SIGKILL'), graceMs);
  const how = await child.ended;
  clearTimeout(insist);
  return how;
}

export const stopAll = () => Promise.all([...running].map((child) => stop(child)));

// The last resort, also for servers that an SDK started: whatever still lives below this process.
export function killAll() {
  for (const pid of descendants(process.pid)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It went by itself.
    }
  }
}

// Two moments can pass between asking for a port and using it: enough for a test machine, since a taken one fails loudly.
export function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

export async function until(what, ms, condition) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not within ${ms} ms`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

// The pids below one pid, as /proc tells them; empty where there is no /proc.
export function descendants(root) {
  const parents = new Map();
  try {
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      const state = statOf(pid);
      if (state) parents.set(Number(pid), state.parent);
    }
  } catch {
    return [];
  }
  const found = [root];
  for (let i = 0; i < found.length; i += 1) {
    for (const [pid, parent] of parents) if (parent === found[i]) found.push(pid);
  }
  return found.slice(1);
}

export const alive = (pid) => {
  const state = statOf(pid);
  return state !== undefined && state.letter !== 'Z';
};

function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const [letter, parent] = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { letter, parent: Number(parent) };
  } catch {
    return undefined;
  }
}
