// The application of the TLS echo table and of the 40 ms test: Node.js, one process, POST comes back as it was.
//
//   node echo-app.js [--http PORT] [--https PORT --cert FILE --key FILE] [--unix PATH] [--shape buffer|pipe] [--nagle] [--count FILE]
//
// buffer  collects the body and answers in one write; pipe  streams it, so that the last chunk ("0\r\n\r\n") is a write
// of its own. --nagle leaves TCP_NODELAY off, as Node did before version 18. --count keeps the counters of echo.c, every
// 64 requests: under load libuv runs no timer for seconds.
'use strict';
const fs = require('fs');
const http = require('http');
const https = require('https');

const options = { shape: 'buffer' };
for (let n = 2; n < process.argv.length; n++) {
  const name = process.argv[n].slice(2);
  options[name] = name === 'nagle' ? true : process.argv[++n];
}

const counters = new BigUint64Array(4); // connections, requests, body bytes in, body bytes out

const file = options.count ? fs.openSync(options.count, 'w') : -1;
const bytes = new Uint8Array(counters.buffer);

function note() {
  if (file >= 0) fs.writeSync(file, bytes, 0, 32, 0);
}

function noteRequest(length) {
  counters[2] += length;
  counters[3] += length;
  if (++counters[1] % 64n === 0n) note();
}

function buffered(request, response) {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks);
    noteRequest(BigInt(body.length));
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': body.length });
    response.end(body);
  });
}

function piped(request, response) {
  noteRequest(0n); // whose length is not known yet
  response.writeHead(200, { 'Content-Type': 'text/plain' });
  request.pipe(response);
}

const answer = options.shape === 'pipe' ? piped : buffered;
const settings = { noDelay: !options.nagle, keepAliveTimeout: 300000, requestTimeout: 0 };

function serve(server, event, where) {
  server.on(event, () => {
    counters[0]++;
    note();
  });
  server.listen(typeof where === 'string' ? { path: where, backlog: 16384, writableAll: true } : { host: '127.0.0.1', port: where, backlog: 16384 });
}

if (options.http) serve(http.createServer(settings, answer), 'connection', Number(options.http));
if (options.unix) serve(http.createServer(settings, answer), 'connection', options.unix);
if (options.https) {
  const tls = { cert: fs.readFileSync(options.cert), key: fs.readFileSync(options.key) };
  serve(https.createServer({ ...settings, ...tls }, answer), 'secureConnection', Number(options.https));
}
note();
