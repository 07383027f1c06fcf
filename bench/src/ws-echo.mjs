// The WebSocket origin: the package ws, every message comes back as it was. bench/setup puts it beside its packages.
//
//   node ws-echo.mjs PORT
import { WebSocketServer } from 'ws';

const server = new WebSocketServer({
  host: '127.0.0.1',
  port: Number(process.argv[2]),
  backlog: 8192,
  maxPayload: 64 << 20,
  maxFragments: 1 << 20, // the suite sends 4 MB in pieces of 64 bytes
  maxBufferedChunks: 1 << 22,
  perMessageDeflate: true,
});
server.on('connection', (socket) => {
  socket.on('message', (data, binary) => socket.send(data, { binary }));
  socket.on('error', () => {}); // ws has answered the invalid frame with its close code already
});
