import { Agent, request } from 'node:http'
import { json } from 'node:stream/consumers'
import { remoteStore, type StoreMessage } from '../../../src/extend.ts'
import type { Family } from './experiment.ts'

/** `remoteStore` over HTTP. */
export const overHttp: Family = {
  name: 'remoteStore',
  async remote(port) {
    const agent = new Agent({ keepAlive: true })
    const send = (message: StoreMessage): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const sent = request({ host: '127.0.0.1', port, method: 'POST', agent })
        sent.on('response', (response) => void json(response).then(resolve, reject))
        sent.on('error', reject).end(JSON.stringify(message))
      })
    return { client: agent, store: remoteStore(send), close: () => agent.destroy() }
  },
}
