// The WebSocket origin: the package ws, every message comes back as it was. bench/setup puts it beside its packages.
// A browser that asks for / gets the page that tries it, and what that page reports by POST is printed.
//
//   node ws-echo.mjs PORT
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { WebSocketServer } from 'ws';

const page = readFileSync(new URL('ws-page.html', import.meta.url));
const web = createServer((request, answer) => {
  if (request.method === 'POST') request.setEncoding('utf8').on('data', (text) => console.log(text));
  answer.setHeader('Content-Type', 'text/html').end(page);
});
const server = new WebSocketServer({
  server: web,
  maxPayload: 64 << 20,
  maxFragments: 1 << 20, // the suite sends 4 MB in pieces of 64 bytes
  maxBufferedChunks: 1 << 22,
  perMessageDeflate: true,
});
server.on('connection', (socket) => {
  socket.on('message', (data, binary) => socket.send(data, { binary }));
  socket.on('error', () => {}); // ws has answered the invalid frame with its close code already
});
web.listen({ host: '127.0.0.1', port: Number(process.argv[2]), backlog: 8192 });
