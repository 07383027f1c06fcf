// The application of the TLS echo table and of the 40 ms test: Node.js, one process, POST comes back as it was.
//
//   node echo-app.js [--http PORT] [--https PORT --cert FILE --key FILE] [--unix PATH] [--shape buffer|pipe] [--nagle] [--count FILE]
//
// buffer  collects the body and answers in one write; pipe  streams it, so that the last chunk ("0\r\n\r\n") is a write
// of its own. --nagle leaves TCP_NODELAY off, as Node did before version 18. --count keeps the counters of echo.c.
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

function buffered(request, response) {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const body = Buffer.concat(chunks);
    counters[1]++;
    counters[2] += BigInt(body.length);
    counters[3] += BigInt(body.length);
    response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': body.length });
    response.end(body);
  });
}

function piped(request, response) {
  counters[1]++;
  response.writeHead(200, { 'Content-Type': 'text/plain' });
  request.pipe(response);
}

const answer = options.shape === 'pipe' ? piped : buffered;
const settings = { noDelay: !options.nagle, keepAliveTimeout: 300000, requestTimeout: 0 };

function serve(server, event, where) {
  server.on(event, () => { counters[0]++; });
  server.listen(typeof where === 'string' ? { path: where, backlog: 16384, writableAll: true } : { host: '127.0.0.1', port: where, backlog: 16384 });
}

if (options.http) serve(http.createServer(settings, answer), 'connection', Number(options.http));
if (options.unix) serve(http.createServer(settings, answer), 'connection', options.unix);
if (options.https) {
  const tls = { cert: fs.readFileSync(options.cert), key: fs.readFileSync(options.key) };
  serve(https.createServer({ ...settings, ...tls }, answer), 'secureConnection', Number(options.https));
}
if (options.count) {
  const file = fs.openSync(options.count, 'w');
  const write = () => fs.writeSync(file, new Uint8Array(counters.buffer), 0, 32, 0);
  write();
  setInterval(write, 10);
}
