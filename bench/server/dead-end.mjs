import { Duplex } from 'node:stream'

/** A socket of a client at 127.0.0.1 that swallows what is sent to it. */
export function deadEnd() {
  const socket = new Duplex({
    read() {},
    write: (_chunk, _encoding, done) => done(),
    writev: (_chunks, done) => done(),
  })
  return Object.assign(socket, {
    remoteAddress: '127.0.0.1',
    remoteFamily: 'IPv4',
    remotePort: 50_000,
    encrypted: false,
    setTimeout() {},
  })
}
