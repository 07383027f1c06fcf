// The tus server of the upload table: @tus/server with a folder of files. bench/setup puts it beside its packages.
//
//   node tus.mjs PORT FOLDER forwarded|plain     forwarded: it believes X-Forwarded-*; plain: it knows only its Host
import { FileStore } from '@tus/file-store';
import { Server } from '@tus/server';

const [port, directory, how] = process.argv.slice(2);
new Server({ path: '/files', datastore: new FileStore({ directory }), respectForwardedHeaders: how === 'forwarded' })
  .listen({ host: '127.0.0.1', port: Number(port) });
