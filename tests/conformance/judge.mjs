// Runs the official suite in both of its roles, and compares what failed with what may fail.
//
//   node judge.mjs             Manifold in front of the reference server, then Manifold as a client
//   node judge.mjs --direct    the reference server alone: what a gateway can reach at best
//
// MANIFOLD   the binary
//
// A scenario that a revision requires passes when no check of it fails. expected-failures.txt names those that may
// fail, with the reason; one that is listed and passes is a failure too.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';

const here = dirname(fileURLToPath(import.meta.url));
const suite = join(here, 'node_modules/@modelcontextprotocol/conformance');
const scratch = mkdtempSync(join(tmpdir(), 'conformance-'));

/** How long one server leg and one client scenario may take, in milliseconds. */
const LEG_MS = 120_000;
const SCENARIO_MS = 45_000;
/** How long a process may take to say where it serves. */
const START_MS = 15_000;
/** Client scenarios at a time: more than two fail from load alone on two cores. */
const AT_A_TIME = 2;

/** By revision: the era in which Manifold speaks to the reference server. */
const REVISIONS = { '2025-11-25': 'legacy', '2026-07-28': 'modern' };

/** Scenarios that came too late to be required, and that Manifold is held to all the same. */
const ALSO = { server: [], client: ['json-schema-2020-12-preservation'] };

function required(revision, role) {
    const sets = parse(readFileSync(join(suite, 'requirements', `${revision}.yaml`), 'utf8'));
    // Manifold has no OAuth client.
    return [...sets[role].filter(name => !name.startsWith('auth/')), ...ALSO[role]];
}

function start(command, args, options = {}) {
    return spawn(command, args, { cwd: scratch, stdio: ['pipe', 'pipe', 'pipe'], ...options });
}

/** The part of the first line of `stream` that `pattern` takes out. */
async function announced(stream, pattern, what) {
    const late = setTimeout(() => stream.destroy(new Error(`${what} did not say where it serves`)), START_MS);
    try {
        for await (const line of createInterface({ input: stream })) {
            const found = pattern.exec(line)?.[1];
            if (found) return found;
        }
    } finally {
        clearTimeout(late);
        stream.resume();
    }
    throw new Error(`${what} ended before it served`);
}

async function stop(child) {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.stdin.end();
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), START_MS);
    await ended;
    clearTimeout(late);
}

/** Runs the suite; all of its output. */
async function run(args, limit) {
    const child = start(process.execPath, [join(suite, 'dist/index.js'), ...args]);
    child.stdin.end();
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', text => (output += text));
    const late = setTimeout(() => child.kill('SIGKILL'), limit);
    const [code] = await once(child, 'close');
    clearTimeout(late);
    return { code, output };
}

const fixture = join(here, 'fixture.mjs');

/** What the suite found wrong in one scenario; a warning is a failure too (and nothing at all is one). */
function complaints(results, name) {
    const folder = readdirSync(results).find(entry => entry.startsWith(`server-${name}-20`));
    if (folder === undefined) return 'it did not run';
    const checks = JSON.parse(readFileSync(join(results, folder, 'checks.json'), 'utf8'));
    if (!checks.some(check => check.status === 'SUCCESS')) return 'no check of it passed';
    const bad = checks.filter(check => check.status === 'FAILURE' || check.status === 'WARNING');
    return bad.map(check => `${check.status} ${check.id}: ${check.errorMessage ?? check.description}`).join('\n');
}

/** The suite against `url`: failed scenarios of those that the revision requires, with what was said of them. */
async function serverLeg(revision, url) {
    const results = mkdtempSync(join(scratch, 'results-'));
    await run(['server', '--url', url, '--requirements', revision, '--output-dir', results], LEG_MS);
    const names = required(revision, 'server');
    const failed = new Map();
    for (const name of names) {
        const said = complaints(results, name);
        if (said !== '') failed.set(name, said);
    }
    return { of: names.length, failed };
}

async function withFixture(work) {
    const child = start(process.execPath, [fixture, 'http']);
    try {
        return await work(await announced(child.stdout, /^(http:\S+)/, 'the reference server'));
    } finally {
        await stop(child);
    }
}

async function withManifold(server, work) {
    const file = join(scratch, 'manifold.json');
    const listen = '127.0.0.1:0';
    writeFileSync(file, JSON.stringify({ listen, admin: { listen }, mcpServers: { reference: server } }));
    const child = start(process.env.MANIFOLD, ['serve', '--config', file]);
    child.stdout.resume();
    try {
        return await work(`${await announced(child.stderr, /^ {2}endpoint +(\S+)/, 'Manifold')}/reference`);
    } finally {
        await stop(child);
    }
}

const overHttp = (protocol, work) => withFixture(url => withManifold({ url, protocol }, work));
const overStdio = (protocol, work) =>
    withManifold({ command: process.execPath, args: [fixture, 'stdio'], protocol }, work);

async function clientLeg(revision) {
    const names = required(revision, 'client');
    const failed = new Map();
    const command = `${process.execPath} ${join(here, 'driver.mjs')}`;
    const queue = [...names];
    const worker = async () => {
        for (let name = queue.shift(); name !== undefined; name = queue.shift()) {
            const args = ['client', '--command', command, '--scenario', name, '--spec-version', revision];
            const { code, output } = await run(args, SCENARIO_MS);
            if (code !== 0 || !/^Passed: [1-9]\d*\/\d+, 0 failed, 0 warnings/m.test(output)) failed.set(name, output);
        }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, worker));
    return { of: names.length, failed };
}

/** `leg scenario reason` a line. */
function expectedFailures() {
    const lines = readFileSync(join(here, 'expected-failures.txt'), 'utf8').split('\n');
    const entries = lines.filter(line => line && !line.startsWith('#')).map(line => line.match(/^(\S+) (\S+) (.+)$/));
    if (entries.includes(null)) throw new Error('expected-failures.txt: each line is a leg, a scenario and a reason');
    return new Map(entries.map(([, leg, name, reason]) => [`${leg} ${name}`, reason]));
}

const direct = process.argv.includes('--direct');
const legs = Object.entries(REVISIONS).flatMap(([revision, protocol]) =>
    direct
        ? [[`direct/${revision}`, () => withFixture(url => serverLeg(revision, url))]]
        : [
              [`server-http/${revision}`, () => overHttp(protocol, url => serverLeg(revision, url))],
              [`server-stdio/${revision}`, () => overStdio(protocol, url => serverLeg(revision, url))],
              [`client/${revision}`, () => clientLeg(revision)]
          ]
);

const expected = expectedFailures();
let bad = 0;

async function judge(leg, work) {
    const { of, failed } = await work();
    console.log(`${leg.padEnd(24)} ${of - failed.size} of ${of}`);
    for (const [name, said] of failed) {
        if (expected.delete(`${leg} ${name}`)) continue;
        bad += 1;
        console.log(`  FAILED ${name}\n${said.replace(/^/gm, '    ')}`);
    }
}

try {
    for (const [leg, work] of legs) await judge(leg, work);
} finally {
    rmSync(scratch, { recursive: true, force: true });
}
// What is left over has passed, or stands for nothing that was run.
for (const key of expected.keys()) {
    if (direct && !key.startsWith('direct/')) continue;
    bad += 1;
    console.log(`expected-failures.txt: ${key} did not fail; take the line out`);
}
console.log(bad === 0 ? 'conformance: all good' : `conformance: ${bad} not as expected`);
process.exit(bad === 0 ? 0 : 1);
