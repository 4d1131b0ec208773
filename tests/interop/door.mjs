// A door is one client's way to all servers. Checks knock on doors, so the same check runs through the gateway's
// merged endpoint, through its per-server endpoints, and on the servers themselves.

// Through `/mcp`: one session for all; names carry the prefix, URIs too (`files__read`, `files+file:///a`).
export async function gatewayDoor(client, gateway, options) {
  const session = await client.open({ url: gateway.mcp }, options);
  return {
    merged: true,
    session: () => session,
    name: (key, name) => `${key}__${name}`,
    uri: (key, uri) => `${key}+${uri}`,
    close: () => session.close(),
  };
}

// One session a server: straight to each, or to `/mcp/<server>`. Names and URIs are the server's own.
export async function separateDoor(open, targets, options) {
  const pairs = await Promise.all(Object.entries(targets).map(async ([key, target]) => [key, await open(target, options)]));
  const sessions = Object.fromEntries(pairs);
  return {
    merged: false,
    session: (key) => sessions[key],
    name: (_key, name) => name,
    uri: (_key, uri) => uri,
    close: () => Promise.all(Object.values(sessions).map((session) => session.close())),
  };
}

export const directTargets = (servers, keys = servers.map((server) => server.key)) =>
  Object.fromEntries(servers.filter(({ key }) => keys.includes(key)).map((s) => [s.key, s.direct ?? s.target]));

export const aloneTargets = (servers, gateway) =>
  Object.fromEntries(servers.map((s) => [s.key, { url: `${gateway.mcp}/${s.key}` }]));
