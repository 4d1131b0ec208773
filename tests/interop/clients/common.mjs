// What the two TypeScript adapters share. An adapter turns one SDK into this shape, so that every check is
// written once:
//
//   open(target, options) -> session
//     target   { command, args, env, cwd } | { url } | { url, sse: true }
//     options  { name, answers: { elicit, sample } }   what the client replies when a server asks
//   session.version                  negotiated protocol revision
//   session.asked                    [{ method, params }] questions that reached this client
//   session.list(kind)               'tools' | 'prompts' | 'resources' | 'templates', all pages
//   session.call(name, args, { onProgress, signal })
//   session.read(uri) · session.prompt(name, args) · session.complete(ref, argument, context)
//   session.watch(kind)              -> await next(ms): resolves at the next list_changed of that kind
//   session.subscribe(uri)           -> await next(ms): resolves at the next update of that resource
//   session.close()

// The longest any one request may take; the slowest real call here needs 3 s.
export const REQUEST_MS = 30_000;

// What every client declares, and what a direct connection has to declare to be shown the same tools.
export const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

// Some servers advertise a capability and answer a list of it with "method not found".
export const emptyIfUnknown = async (work) => {
  try {
    return await work();
  } catch (error) {
    if (error?.code === -32601) return [];
    throw error;
  }
};

export function answersTo(session, answers) {
  return {
    elicit: (request) => {
      session.asked.push({ method: 'elicitation/create', params: request.params });
      return { action: 'accept', content: answers.elicit };
    },
    sample: (request) => {
      session.asked.push({ method: 'sampling/createMessage', params: request.params });
      return { role: 'assistant', model: 'interop', content: { type: 'text', text: answers.sample } };
    },
    roots: () => ({ roots: [] }),
  };
}

// Bells by name: the kind of a changed list, or the URI of an updated resource. One rings once per notification, and a
// listener that waits late still hears what rang since it began to listen.
export function bells() {
  const rung = new Map();
  const waiting = new Map();
  const count = (name) => rung.get(name) ?? 0;
  return {
    ring: (name) => {
      rung.set(name, count(name) + 1);
      waiting.get(name)?.();
    },
    listen: (name) => {
      let heard = count(name);
      return async (ms) => {
        if (count(name) === heard) {
          await new Promise((resolve, reject) => {
            const timer = setTimeout(() => reject(new Error(`no notification for ${name} within ${ms} ms`)), ms);
            waiting.set(name, () => (clearTimeout(timer), resolve()));
          });
        }
        heard = count(name);
      };
    },
  };
}
