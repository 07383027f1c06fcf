// Has a Chromium load a page, seek in its film and reload it, over the DevTools protocol: site.mjs PORT URL PICTURE
// Prints one JSON object: for each phase what was asked for, over which protocol, and where the answer came from.
import { writeFile } from 'node:fs/promises';
import WebSocket from 'ws';

const [port, url, picture] = process.argv.slice(2);
const { webSocketDebuggerUrl } = await (await fetch(`http://127.0.0.1:${port}/json/version`)).json();
const socket = new WebSocket(webSocketDebuggerUrl, { perMessageDeflate: false, maxPayload: 1 << 28 });
await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));

let last = 0, session;
const waiting = new Map(), asked = new Map();
let phase = 'load', loaded = () => {};
const said = { resources: [], console: [] };

const send = (method, params = {}) => new Promise((resolve, reject) => {
  waiting.set(++last, { resolve, reject });
  socket.send(JSON.stringify({ id: last, method, params, ...(session && { sessionId: session }) }));
});

// The same id is asked for again by a redirect only; what the network said, a 304, is in the "extra" event alone.
const one = (id) => {
  if (!asked.has(id)) {
    asked.set(id, { phase });
    said.resources.push(asked.get(id));
  }
  return asked.get(id);
};
const field = (headers, name) => Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
const heard = {
  'Network.requestWillBeSent': ({ requestId, request, type }) => Object.assign(one(requestId), { url: request.url, type }),
  'Network.requestServedFromCache': ({ requestId }) => { one(requestId).cache = 'memory'; },
  'Network.responseReceived': ({ requestId, response }) => {
    const resource = one(requestId);
    Object.assign(resource, { protocol: response.protocol, status: response.status, type_of_content: response.mimeType });
    if (response.fromDiskCache) resource.cache = 'disk';
    resource.range ??= field(response.headers, 'content-range');
  },
  'Network.responseReceivedExtraInfo': ({ requestId, statusCode, headers }) => {
    Object.assign(one(requestId), { wire: statusCode, coding: field(headers, 'content-encoding'), range: field(headers, 'content-range') });
  },
  'Network.loadingFailed': ({ requestId, errorText, canceled }) => { one(requestId)[canceled ? 'given_up' : 'failed'] = errorText; },
  'Page.loadEventFired': () => loaded(),
  'Runtime.exceptionThrown': ({ exceptionDetails }) => said.console.push(exceptionDetails.exception?.description ?? exceptionDetails.text),
  'Log.entryAdded': ({ entry }) => { if (entry.level === 'error') said.console.push(entry.text); },
};
socket.on('message', (data) => {
  const { id, method, params, result, error } = JSON.parse(data);
  if (method) return heard[method]?.(params);
  const { resolve, reject } = waiting.get(id);
  waiting.delete(id);
  error ? reject(new Error(error.message)) : resolve(result);
});

const evaluate = async (expression) => {
  const { result, exceptionDetails } = await send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
  return result.value;
};
// The page says itself when its modules, pictures and the begin of its film are there.
const page = async (begin) => {
  const event = new Promise((resolve) => { loaded = resolve; });
  await begin();
  await event;
  return evaluate('window.complete');
};

const { targetId } = await send('Target.createTarget', { url: 'about:blank' });
({ sessionId: session } = await send('Target.attachToTarget', { targetId, flatten: true }));
for (const domain of ['Network', 'Page', 'Runtime', 'Log']) await send(`${domain}.enable`);
await send('Emulation.setDeviceMetricsOverride', { width: 1000, height: 800, deviceScaleFactor: 1, mobile: false });

said.complete = await page(() => send('Page.navigate', { url }));
phase = 'seek';
// Without the cache: of what it has read ahead it would only ask whether that is still so.
await send('Network.setCacheDisabled', { cacheDisabled: true });
said.seek = await evaluate(`(async () => {
  const film = document.querySelector('video');
  if (!film) return null;
  film.currentTime = film.duration * 0.8;
  await new Promise((resolve, reject) => { film.onseeked = resolve; film.onerror = () => reject(film.error); });
  return { at: film.currentTime, duration: film.duration, width: film.videoWidth };
})()`);
const { data } = await send('Page.captureScreenshot', { format: 'png' });
await writeFile(picture, Buffer.from(data, 'base64'));
await send('Network.setCacheDisabled', { cacheDisabled: false });
phase = 'reload';
said.again = await page(() => send('Page.reload'));
// The browser's own icon may still be under way.
said.resources = said.resources.filter(({ wire, cache, failed, given_up }) => wire || cache || failed || given_up);
console.log(JSON.stringify(said));
await send('Browser.close').catch(() => {});
process.exit(0);
