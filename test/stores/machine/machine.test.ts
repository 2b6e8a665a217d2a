// Stores of one machine in one process: processes.test.ts has several.
import fs, {
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { once } from 'node:events'
import { syncBuiltinESMExports } from 'node:module'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import {
  type AsyncStore,
  type Clock,
  concurrent,
  createLimiter,
  fixedWindow,
  gcra,
  type Limiter,
  type Limits,
  slidingWindowLog,
} from '../../../src/index.ts'
import { Restoring, sendCounts, writeSnapshot } from '../../../src/stores/machine/counts.ts'
import { machineStore, type MachineStoreOptions } from '../../../src/stores/machine/index.ts'
import { SocketFile } from '../../../src/stores/machine/socket-file.ts'
import { standInStore } from '../../../src/stores/memory/index.ts'
import type { Store, SyncStore } from '../../../src/stores/store.ts'
import { storeBehaviours } from '../../../src/testing.ts'
import { afterTest } from '../../support/after-test.ts'
import { warningsOfEachTest } from '../../support/guarded.ts'
import { leaveSocket } from '../../support/machine.ts'

let folder: string
const warnings = warningsOfEachTest()
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-m-'))
  afterTest(() => rmSync(folder, { recursive: true, force: true }))
})

function unready(options: MachineStoreOptions = {}): AsyncStore {
  const store = machineStore({ path: join(folder, 'l'), ...options })
  afterTest(() => store.close())
  return store
}

async function opened(options: MachineStoreOptions = {}): Promise<AsyncStore> {
  const store = unready(options)
  await store.ready!()
  return store
}

const perKey = (key: string): string => key
function limiterOn(store: Store, limits: Limits<string> = fixedWindow({ quota: 5, window: '1h' })): Limiter<string> {
  return createLimiter<string>({ name: 'api', keyer: perKey, limits, store, shared: true })
}

let files = 0
/** A store of a clock in which another store counts. */
async function served(clock: Clock): Promise<AsyncStore> {
  const path = join(folder, String(files++))
  await opened({ path, clock })
  return opened({ path, clock })
}

describe.each<[string, (clock: Clock) => Promise<AsyncStore>]>([
  ['that counts', (clock) => opened({ path: join(folder, String(files++)), clock })],
  ['that is served', served],
])('a store %s', (_, make) => {
  for (const { name, run } of storeBehaviours(make, { runs: 25 })) it(name, run, 60_000)
})

describe('close', () => {
  const limits = [
    slidingWindowLog({ name: 'log', quota: 10, window: '1h' }),
    gcra({ name: 'locked', quota: 100, window: '1h', block: '1h' }),
  ]

  it('hands over what every limit has counted, locks and receipts too', async () => {
    const first = await opened()
    const second = await opened()
    const at = (store: AsyncStore, name = 'api'): Limiter<string> =>
      createLimiter<string>({ name, keyer: perKey, limits, store, shared: true, receiptFor: '1h' })
    const decision = await at(first).consume('ann', { cost: 4 })
    const receipt = at(first).receipt(decision)
    await at(first).settle(receipt, 1)
    await at(second).consume('ann', { cost: 2 })
    await at(second).block('bob', '1h')
    await first.close()
    const [log, locked] = (await at(second).peek('ann', { cost: 0 })).limits
    expect([log!.used, locked!.used]).toEqual([3, 3])
    expect((await at(second).peek('bob')).allowed).toBe(false)
    // The receipt was settled before.
    await at(second).settle(receipt, 4)
    expect((await at(second).peek('ann', { cost: 0 })).limits[0]!.used).toBe(3)
    expect(warnings.codes).toEqual([])
  })

  it('hands over 20,000 keys in parts', async () => {
    const first = await opened()
    const second = await opened()
    const limiter = limiterOn(first)
    for (let i = 0; i < 20_000; i++) await limiter.consume(`key ${i}`)
    await first.close()
    for (const i of [0, 9999, 19_999])
      expect((await limiterOn(second).peek(`key ${i}`, { cost: 0 })).limits[0]!.used).toBe(1)
  })

  it.each([
    ['the process that takes the counts', 0],
    ['another process', 1],
  ])('loses no decision of %s, and makes none twice', async (_, others) => {
    const first = await opened()
    const second = await opened()
    for (let i = 0; i < others; i++) await opened()
    const limiter = limiterOn(second, fixedWindow({ quota: 1_000_000, window: '1h' }))
    const decisions = []
    let turnsLeft = Infinity
    const closing = first.close().then(() => (turnsLeft = 100))
    // In each turn, also in that in which a connection ends.
    for (; turnsLeft > 0; turnsLeft--, await new Promise(setImmediate)) decisions.push(limiter.consume('ann'))
    await closing
    await Promise.all(decisions)
    expect((await limiter.peek('ann', { cost: 0 })).limits[0]!.used).toBe(decisions.length)
  })

  it('offers the counts to the next process if one cannot take them, which asks that one from then on', async () => {
    const first = await opened()
    const second = await opened()
    const third = await opened()
    await limiterOn(first).consume('ann')
    // The process may open no more files.
    const replace = vi.spyOn(SocketFile.prototype, 'replace').mockRejectedValueOnce(new Error('EMFILE'))
    await first.close()
    expect(replace).toHaveBeenCalledTimes(2)
    expect((await limiterOn(second).consume('ann')).remaining).toBe(3)
    expect((await limiterOn(third).consume('ann')).remaining).toBe(2)
    expect(warnings.codes).toEqual([])
  })

  it('rejects decisions from then on, and leaves no file', async () => {
    const store = await opened()
    const limiter = limiterOn(store)
    await store.close()
    await expect(limiter.consume('ann')).rejects.toMatchObject({ code: 'STORE_CLOSED' })
    await store.close()
    expect(() => statSync(new SocketFile(join(folder, 'l')).path)).toThrow(/ENOENT/)
  })

  it('keeps slots of concurrent for a release in the next process', async () => {
    const first = await opened()
    const second = await opened()
    const running = await limiterOn(second, concurrent(1)).consume('ann')
    await first.close()
    expect((await limiterOn(second, concurrent(1)).consume('ann')).allowed).toBe(false)
    await limiterOn(second, concurrent(1)).release(running)
    expect((await limiterOn(second, concurrent(1)).consume('ann')).allowed).toBe(true)
  })
})

describe('snapshot', () => {
  let snapshot: string
  beforeEach(() => void (snapshot = join(folder, 'limits.json')))

  it('keeps counts over a restart, for its user only', async () => {
    const first = await opened({ snapshot })
    for (let i = 0; i < 3; i++) await limiterOn(first).consume('ann')
    await first.close()
    expect(statSync(snapshot).mode & 0o777).toBe(0o600)
    const second = await opened({ snapshot })
    expect((await limiterOn(second).consume('ann')).remaining).toBe(1)
    expect(warnings.codes).toEqual([])
  })

  it('has what was asked before this process has begun to count', async () => {
    const store = unready({ snapshot })
    await limiterOn(store).consume('ann')
    await vi.waitFor(() => expect(readFileSync(snapshot, 'utf8')).toContain('"ann"'), 2000)
  })

  it.each([
    ['although nothing is asked since', async () => undefined],
    ['before this one waits for the next', async (second: AsyncStore) => second.close()],
  ])('has the counts that another process has handed over, %s', async (_, then) => {
    const first = await opened({ snapshot })
    const second = await opened({ snapshot })
    await limiterOn(first).consume('ann')
    await first.close()
    const began = performance.now()
    const done = then(second)
    await vi.waitFor(() => expect(readFileSync(snapshot, 'utf8')).toContain('"ann"'), 2000)
    await done
    // PM2 kills a process 1.6 seconds after its signal.
    expect(performance.now() - began).toBeLessThan(1500)
  })

  it.each([
    ['is no JSON', 'limits'],
    ['is of another version', '[["sluice",2],["end"]]\n'],
    ['was cut off', '[["sluice",1],["limit","api","5-per-1h"]]\n'],
    ['has a row that is damaged', '[["sluice",1],["limit","api","a"],["key","ann",{"until":"soon"}],["end"]]\n'],
  ])('that %s causes a warning, and counts start from zero', async (_, text) => {
    writeFileSync(snapshot, text)
    const store = await opened({ snapshot })
    expect((await limiterOn(store).consume('ann')).remaining).toBe(4)
    await vi.waitFor(() => expect(warnings.codes).toEqual(['SLUICE_COUNTS_LOST']))
  })

  it('that finds no room for all keys causes a warning', async () => {
    const first = await opened({ snapshot })
    for (let i = 0; i < 20; i++) await limiterOn(first).consume(`key ${i}`)
    await first.close()
    await opened({ snapshot, maxKeys: 5 })
    const messages = [expect.stringContaining('15 keys more than there is room for')]
    await vi.waitFor(() => expect(warnings.messages).toEqual(messages))
  })

  it('that cannot be written causes a warning', async () => {
    const store = await opened({ snapshot: join(folder, 'nowhere', 'limits.json') })
    await limiterOn(store).consume('ann')
    await vi.waitFor(() => expect(warnings.codes).toEqual(['SLUICE_SNAPSHOT']), 3000)
  })

  describe('that is written while decisions are made', () => {
    const counting = (): { memory: SyncStore; limiter: Limiter<string> } => {
      const memory = standInStore(1_000_000, Date)
      return { memory, limiter: limiterOn(memory) }
    }

    it('has an end, however many keys are new', async () => {
      const { memory, limiter } = counting()
      for (let i = 0; i < 1000; i++) void limiter.consume(`key ${i}`)
      let batches = 0
      const isSent = await sendCounts(memory, async () => {
        for (let i = 0; i < 1000; i++) void limiter.consume(`new ${batches} ${i}`)
        return ++batches < 50
      })
      expect(isSent).toBe(true)
    })

    it('waits for the file only a few times, so that a busy process writes it soon', async () => {
      const { memory, limiter } = counting()
      for (let i = 0; i < 20_000; i++) void limiter.consume(`key ${i}`)
      /** Returns how many turns work takes in a process that needs three milliseconds for each. */
      async function turnsOf(work: Promise<unknown>): Promise<number> {
        let turns = 0
        let isDone = false
        void work.then(() => (isDone = true))
        for (; !isDone; turns++, await new Promise(setImmediate))
          for (const end = performance.now() + 3; performance.now() < end;);
        return turns
      }
      const listing = await turnsOf(sendCounts(memory, async () => true))
      expect(await turnsOf(writeSnapshot(snapshot, memory, () => true))).toBeLessThan(listing + 40)
      expect(statSync(snapshot).size).toBeGreaterThan(1_500_000)
    })

    it('has the later count of a key that was deleted and made again', async () => {
      const { memory, limiter } = counting()
      const restoring = new Restoring(standInStore(1, Date))
      for (let i = 0; i < 2; i++) {
        void limiter.consume('ann')
        await sendCounts(memory, async (batch) => (restoring.add(JSON.parse(batch)), true))
      }
      expect(restoring.lost).toBe(0)
      expect(await limiterOn(restoring.memory).peek('ann', { cost: 0 })).toMatchObject({ limits: [{ used: 2 }] })
    })
  })

  it('is whole at any time', async () => {
    const store = await opened({ snapshot })
    const limiter = limiterOn(store)
    for (let i = 0; i < 3000; i++) await limiter.consume(`key ${i}`)
    for (let looks = 0; looks < 40; looks++) {
      await limiter.consume(`key ${looks}`)
      await pause(40)
      const text = await Promise.resolve()
        .then(() => readFileSync(snapshot, 'utf8'))
        .catch(() => undefined)
      if (text !== undefined) expect(text.trimEnd().endsWith('["end"]]')).toBe(true)
    }
    expect(readFileSync(snapshot, 'utf8')).toContain('key 2999')
  })
})

describe('the socket file', () => {
  it(
    'that is deleted does not make snapshots more frequent, which would overwrite one another',
    { timeout: 30_000 },
    async () => {
      const path = join(folder, 'l')
      const snapshot = join(folder, 'counts')
      const store = await opened({ snapshot })
      const limiter = limiterOn(store)
      for (let i = 0; i < 5000; i++) await limiter.consume(`key ${i}`)
      const file = new SocketFile(path).path
      for (let i = 0; i < 3; i++) {
        for (let n = 0; n < 12; n++) await Promise.all([limiter.consume('ann'), pause(100)])
        rmSync(file)
        await vi.waitFor(() => statSync(file), 5000)
      }
      const times = new Set<bigint>()
      for (const end = performance.now() + 2500; performance.now() < end; await pause(10)) {
        await limiter.consume('ann')
        const { mtimeNs } = statSync(snapshot, { bigint: true, throwIfNoEntry: false }) ?? { mtimeNs: 0n }
        times.add(mtimeNs)
      }
      // One before the first look, and one in each half second.
      expect(times.size).toBeLessThanOrEqual(7)
    },
  )

  it.each([
    ['is deleted', false],
    ['is deleted with its folder', true],
  ])('that %s is made again, and no count is lost', async (_, withFolder) => {
    const path = join(folder, 'inner', 'l')
    const first = await opened({ path })
    const second = await opened({ path })
    const file = new SocketFile(path).path
    await limiterOn(second).consume('ann')
    for (let i = 0; i < 2; i++) {
      rmSync(withFolder ? join(folder, 'inner') : file, { recursive: true })
      await vi.waitFor(() => statSync(file), 2000)
    }
    const third = await opened({ path })
    expect((await limiterOn(third).consume('ann')).remaining).toBe(3)
    expect((await limiterOn(second).consume('ann')).remaining).toBe(2)
    expect((await limiterOn(first).consume('ann')).remaining).toBe(1)
    await first.close()
    expect((await limiterOn(second).consume('ann')).remaining).toBe(0)
    expect(warnings.codes).toEqual([])
  })

  it('that is deleted just before the process that counts closes is made again, too', async () => {
    const first = await opened()
    const second = await opened()
    await limiterOn(first).consume('ann')
    rmSync(new SocketFile(join(folder, 'l')).path)
    await first.close()
    expect((await limiterOn(second).consume('ann')).remaining).toBe(3)
    expect(warnings.codes).toEqual([])
  })

  it('that another process replaces stops the process that counts within a second, with a warning', async () => {
    const store = await opened({ snapshot: join(folder, 'limits.json') })
    await limiterOn(store).consume('ann')
    await vi.waitFor(() => expect(readFileSync(join(folder, 'limits.json'), 'utf8')).toContain('ann'), 3000)
    rmSync(new SocketFile(join(folder, 'l')).path)
    const other = await opened()
    await limiterOn(other).consume('ann')
    await pause(1000)
    await vi.waitFor(() => expect(warnings.codes).toEqual(['SLUICE_COUNTS_LOST']))
    // It asks the other one now.
    expect((await limiterOn(store).consume('ann')).remaining).toBe(3)
    expect(readFileSync(join(folder, 'limits.json'), 'utf8').match(/"ann"/g)).toHaveLength(1)
  })

  it('of a process that was killed is replaced, with a warning', async () => {
    const { path } = new SocketFile(join(folder, 'l'))
    await leaveSocket(path)
    const store = await opened()
    expect((await limiterOn(store).consume('ann')).allowed).toBe(true)
    await vi.waitFor(() => expect(warnings.codes).toEqual(['SLUICE_COUNTS_LOST']))
  })

  it('on a file system that has become read-only does not end the process', async () => {
    const store = await opened()
    const { path } = new SocketFile(join(folder, 'l'))
    const old = new Date(Date.now() - 7_200_000)
    fs.lutimesSync(path, old, old)
    const refuse = (): never => {
      throw new Error('EROFS: read-only file system')
    }
    const renew = vi.spyOn(fs, 'lutimesSync').mockImplementation(refuse)
    const remove = vi.spyOn(fs, 'rmSync').mockImplementation(refuse)
    syncBuiltinESMExports()
    afterTest(syncBuiltinESMExports)
    await vi.waitFor(() => expect(renew).toHaveBeenCalledTimes(2), 3000)
    await limiterOn(store).consume('ann')
    await store.close()
    expect(remove).toHaveBeenCalled()
  })

  it('has the user and the machine in its name', () => {
    const { path } = new SocketFile(join(folder, 'l'))
    expect(path).toMatch(new RegExp(`/l-${process.geteuid!()}-[0-9a-f]{8}$`))
  })

  it.each<[string, (path: string) => void, string | RegExp]>([
    ['a folder that others may use', (path) => mkdirSync(path, { mode: 0o755 }), /mode is 755/],
    ['a folder that others may enter', (path) => mkdirSync(path, { mode: 0o711 }), /mode is 711/],
    ['a link to a folder', (path) => symlinkSync(folder, path), /is no folder/],
    [
      'a file in place of a folder',
      (path) => writeFileSync(path, ''),
      /cannot be created: .* Choose another one with the option `path`/,
    ],
  ])('is refused in %s', (_, prepare, message) => {
    const inner = join(folder, 'inner')
    prepare(inner)
    expect(() => machineStore({ path: join(inner, 'l') })).toThrow(
      expect.objectContaining({ code: 'STORE_SETUP', message: expect.stringMatching(message) as string }),
    )
  })

  // Only root can give a folder away.
  it.runIf(process.getuid!() === 0)('is refused in a folder of another user', () => {
    const inner = join(folder, 'inner')
    mkdirSync(inner, { mode: 0o700 })
    chownSync(inner, 65_534, 65_534)
    expect(() => machineStore({ path: join(inner, 'l') })).toThrow(/belongs to the user 65534/)
  })

  it('is refused once others may use its folder', async () => {
    const inner = join(folder, 'inner')
    const store = await opened({ path: join(inner, 'l') })
    await store.close()
    chmodSync(inner, 0o777)
    expect(() => machineStore({ path: join(inner, 'l') })).toThrow(
      /Choose a new folder .* chmod 700 on this one if nothing else uses it/,
    )
  })

  it('is created with its folder', async () => {
    await opened({ path: join(folder, 'a', 'l') })
    expect(statSync(join(folder, 'a')).mode & 0o777).toBe(0o700)
  })

  it('does not replace another file', async () => {
    const { path } = new SocketFile(join(folder, 'l'))
    writeFileSync(path, 'mine')
    const store = unready()
    await expect(store.ready!()).rejects.toMatchObject({ code: 'STORE_SETUP', message: /is no socket/ })
    expect(readFileSync(path, 'utf8')).toBe('mine')
  })

  it.each([
    [{ path: 'a'.repeat(100) }, 'INVALID_OPTION'],
    [{ path: '' }, 'INVALID_OPTION'],
    [{ path: 1 }, 'INVALID_OPTION'],
    [{ path: 'a\0b' }, 'INVALID_OPTION'],
    [{ snapshot: true }, 'INVALID_OPTION'],
    [{ maxKeys: 0 }, 'INVALID_OPTION'],
    [{ clock: 1 }, 'INVALID_OPTION'],
    [{ file: 'l' }, 'UNKNOWN_OPTION'],
  ])('is not made with %o', (options, code) => {
    expect(() => machineStore(options as never)).toThrow(expect.objectContaining({ code }))
  })
})

describe('a hostile process', () => {
  const frame = (kind: string, text: string): string => `["${kind}",1,${text}]\n`

  /** Listens in place of the process that counts. */
  async function impostor(answer: (socket: Socket) => void): Promise<Server> {
    const server = createServer(answer).listen(new SocketFile(join(folder, 'l')).path)
    afterTest(() => server.close())
    await once(server, 'listening')
    return server
  }

  async function connected(): Promise<Socket> {
    const socket = connect(new SocketFile(join(folder, 'l')).path)
    afterTest(() => socket.destroy())
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    return socket
  }

  it.each([
    ['garbage', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
    ['a frame that does not end', ' '.repeat(200_001)],
    ['a frame that is larger than a message', frame('ask', `"${'x'.repeat(200_001)}"`)],
    ['an unknown kind', frame('drop', '{}')],
    ['no JSON', frame('ask', '{"sluice":')],
    ['an empty frame', '\n'],
    ['a frame without a number', '["ask",{},{}]\n'],
    ['JSON of 60,000 levels', frame('ask', '['.repeat(60_000))],
    ['a greeting of another type', frame('hello', 'null')],
    ['what only a server sends', frame('counts', '[]')],
  ])('that sends %s is disconnected, and others are served', async (_, text) => {
    const store = await opened()
    const socket = await connected()
    socket.resume()
    socket.write(text)
    await once(socket, 'close')
    expect((await limiterOn(await opened()).consume('ann')).remaining).toBe(4)
    expect((await limiterOn(store).consume('ann')).remaining).toBe(3)
  })

  it('that sends messages of another form gets errors', async () => {
    await opened()
    const socket = await connected()
    for (const text of ['{"sluice":9}', '5', '{"__proto__":{"sluice":1}}']) socket.write(frame('ask', text))
    let text = ''
    socket.on('data', (chunk) => (text += chunk.toString()))
    await vi.waitFor(() => expect(text.match(/VERSION_MISMATCH|INVALID_MESSAGE/g)).toHaveLength(3))
  })

  it('that says it has taken the counts does not get them by that', async () => {
    const first = await opened()
    const second = await opened()
    await limiterOn(first).consume('ann')
    const socket = await connected()
    socket.write(frame('hello', `[1,${Date.now() + 1e6}]`) + frame('taken', 'true'))
    await pause(50)
    socket.destroy()
    await first.close()
    expect((await limiterOn(second).consume('ann')).remaining).toBe(3)
  })

  it.each([
    ['is the youngest and does not take the counts', () => frame('hello', `[1,${Date.now() + 1e6}]`)],
    ['still loads its program, so that it has sent nothing,', () => ''],
  ])('that %s is passed over before PM2 kills the process that counts', async (_, sent) => {
    const first = await opened()
    const second = await opened()
    await limiterOn(first).consume('ann')
    const socket = await connected()
    socket.write(sent())
    await pause(50)
    const began = performance.now()
    const closing = first.close()
    expect((await limiterOn(second).consume('ann')).remaining).toBe(3)
    expect(performance.now() - began).toBeLessThan(1600)
    socket.destroy()
    await closing
  })

  it('that has sent nothing and is the only one does not delay the snapshot', async () => {
    const snapshot = join(folder, 'limits.json')
    const first = await opened({ snapshot })
    const socket = await connected()
    await pause(50)
    await limiterOn(first).consume('ann')
    const closing = first.close()
    await vi.waitFor(() => expect(readFileSync(snapshot, 'utf8')).toContain('"ann"'), 1500)
    socket.destroy()
    await closing
  })

  it('that reads no answers does not grow the memory, and others are served', async () => {
    const store = await opened()
    const socket = await connected()
    socket.pause()
    const charge = { policy: 0, key: 'ann', cost: 1 }
    const message = frame(
      'ask',
      JSON.stringify({
        sluice: 1,
        policies: [{ limiter: 'api', limit: fixedWindow({ quota: 5, window: '1h' }) }],
        operations: Array.from({ length: 256 }, () => ({ kind: 'consume', charges: [charge], fresh: false })),
      }),
    )
    const before = process.memoryUsage()
    // Each of them has an answer of about 40 kB.
    let sent = 0
    for (; sent < 5000 && socket.writableLength < 50 * message.length; sent++) {
      socket.write(message)
      await new Promise(setImmediate)
    }
    expect(sent).toBeLessThan(500)
    const after = process.memoryUsage()
    expect(after.external + after.heapUsed - before.external - before.heapUsed).toBeLessThan(30_000_000)
    expect((await limiterOn(await opened()).peek('bob')).allowed).toBe(true)
    expect((await limiterOn(store).peek('bob')).allowed).toBe(true)
  })

  it('with a thousand connections and halves of frames takes a bounded memory', async () => {
    const store = await opened()
    const before = process.memoryUsage().arrayBuffers
    const half = '["ask",1,'.padEnd(1000)
    for (let i = 0; i < 1000; i++) (await connected()).write(half)
    await pause(200)
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(512 * 250_000)
    expect((await limiterOn(store).consume('ann')).remaining).toBe(4)
  })

  it('that ends each connection at once is not asked more than a few times a second', async () => {
    let connections = 0
    await impostor((socket) => {
      connections++
      socket.destroy()
    })
    unready()
    await pause(1000)
    expect(connections).toBeGreaterThan(1)
    expect(connections).toBeLessThan(50)
  })

  it('in place of the process that counts makes decisions fail, with a bound', async () => {
    const peers: Socket[] = []
    const server = await impostor((socket) => {
      peers.push(socket)
      socket.on('error', () => undefined)
      socket.write(frame('hello', 'true'))
    })
    const store = unready()
    const limiter = limiterOn(store)
    const messages: string[] = []
    const noted = Array.from({ length: 25_000 }, () =>
      Promise.resolve(limiter.consume('ann')).then(
        () => messages.push('decided'),
        (error: unknown) => messages.push((error as Error).message),
      ),
    )
    await vi.waitFor(() => expect(messages.length).toBeGreaterThan(4900))
    expect(messages.length).toBeLessThan(5400)
    expect(messages.every((each) => each.includes('20000 operations, or 10 MB, wait'))).toBe(true)
    for (const text of ['{}', '[1', '{"sluice":1,"now":1,"answers":[]}']) {
      await vi.waitFor(() => expect(peers.length).toBeGreaterThan(0))
      for (const socket of peers.splice(0)) {
        socket.write(frame('answer', text))
        await pause(20)
        socket.destroy()
      }
    }
    server.close()
    await store.close()
    await Promise.all(noted)
    expect(messages).toHaveLength(25_000)
    expect(messages).not.toContain('decided')
  }, 30_000)

  it('in place of the process that counts, or one that hangs, gets at most 10 MB that it does not read', async () => {
    const server = createServer({ pauseOnConnect: true }, (socket) => {
      afterTest(() => socket.destroy())
      socket.write(frame('hello', 'true'))
    })
    server.listen(new SocketFile(join(folder, 'l')).path)
    await once(server, 'listening')
    const store = machineStore({ path: join(folder, 'l') })
    const limits = Array.from({ length: 16 }, (_, i) => fixedWindow({ name: `l${i}`, quota: 5, window: '1h' }))
    const limiter = createLimiter({ keyer: (key: string) => key, limits, store })
    const messages: string[] = []
    let asked = 0
    // Each message has about 8 kB, since JSON escapes these characters.
    for (; messages.length === 0 && asked < 2000; asked++) {
      Promise.resolve(limiter.consume('\u0001'.repeat(64))).catch((error: unknown) =>
        messages.push((error as Error).message),
      )
      await new Promise(setImmediate)
    }
    expect(asked).toBeGreaterThan(1000)
    expect(asked).toBeLessThan(2000)
    expect(messages[0]).toContain('20000 operations, or 10 MB, wait for the process that counts')
    server.close()
    await store.close()
  })
})
