// The one page of the web that the suite visits: served here, on loopback, with a door that never answers.
import { createServer } from 'node:http';

export const PAGE_TEXT = 'Seven herons stand in the reeds';

export function servePage() {
  // What a cancelled fetch shows: `slow` grows when a request arrives, `left` when its caller hangs up.
  const seen = { slow: 0, left: 0 };
  const server = createServer((request, response) => {
    if (request.url === '/slow') {
      seen.slow += 1;
      response.on('close', () => (seen.left += 1));
      return;
    }
    const body = `<html><head><title>Herons</title></head><body><article><h1>Herons</h1><p>${PAGE_TEXT}.</p></article></body></html>`;
    response.writeHead(200, { 'content-type': 'text/html' }).end(body);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const stop = () => (server.closeAllConnections(), server.close());
      resolve({ url: `http://127.0.0.1:${server.address().port}`, seen, stop });
    });
  });
}
