// An origin that can be killed, paused and slowed, and that says which POSTs it was given.
//
//   node origin.mjs PORT FILE     every id of POST /post/ID becomes a line of FILE before it is answered
//   USR2                          answers come 200 ms late from now on, or no longer
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';

const [port, file] = process.argv.slice(2);
let late = 0;
process.on('SIGUSR2', () => { late = late ? 0 : 200; });

createServer({ keepAliveTimeout: 300000 }, (request, response) => {
  if (request.method === 'POST') appendFileSync(file, `${request.url.slice('/post/'.length)}\n`);
  request.resume();
  request.on('end', () => {
    const answer = () => response.writeHead(200, { 'Content-Length': 3 }).end('ok\n');
    if (late) setTimeout(answer, late);
    else answer();
  });
}).listen({ host: '127.0.0.1', port: Number(port), backlog: 4096 });
