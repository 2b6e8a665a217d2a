import { setTimeout as pause } from 'node:timers/promises'
import slotOf from 'cluster-key-slot'
import { Redis } from 'ioredis'
import { redisCli } from '../redis-cluster.ts'
import type { Needs, Place, PlaceKind } from './place.ts'

/** Milliseconds: the deadline of the guard, how long a fault lasts, and the load before the fault and after the recovery. */
export interface Times {
  readonly deadline: number
  readonly lasts: number
  readonly around: number
}

/** Something that goes wrong with a server, or with the network in front of it. */
export interface Fault extends Needs {
  readonly name: string
  readonly places: readonly PlaceKind[]
  /** `'outage'`: decisions are made without the server. `'none'`: it goes on deciding. `'either'`: it depends on the client. */
  readonly effect: 'outage' | 'none' | 'either'
  /** The server answers late what it was asked, so that all of it can be given back. */
  readonly isLate?: boolean
  /** The server forgets its states. */
  readonly forgets?: boolean
  /** The client is made while the fault lasts. */
  readonly isAtStart?: boolean
  /** The password that the client sends, and the server first wants. */
  readonly password?: string
  /** Before the load. */
  prepare?(place: Place): unknown
  begin(place: Place, times: Times): unknown
  end(place: Place): unknown
}

const BOTH = ['single', 'cluster'] as const
/** Also a process that counts for others. */
const ALL = [...BOTH, 'remote'] as const
const LOOP = 'while true do end'

function network(name: string, mode: 'hold' | 'lose' | 'cut' | 'reset'): Fault {
  return {
    name,
    places: ALL,
    effect: 'outage',
    isLate: mode === 'hold',
    isProxied: true,
    begin: ({ proxy }) => proxy!.set(mode),
    end: ({ proxy }) => proxy!.set('pass'),
  }
}

/** @param part of the deadline that each reply waits */
function slow(name: string, part: number, effect: Fault['effect']): Fault {
  return {
    name,
    places: ALL,
    effect,
    isLate: true,
    isProxied: true,
    begin: ({ proxy }, { deadline }) => proxy!.set('pass', deadline * part),
    end: ({ proxy }) => proxy!.set('pass'),
  }
}

let isFlushing = false

export const faults: readonly Fault[] = [
  {
    name: 'killed, and restarted empty',
    places: ALL,
    effect: 'outage',
    forgets: true,
    begin: ({ server }) => server.kill(),
    end: ({ server }) => server.restart(),
  },
  {
    name: 'restarted empty at once',
    places: ALL,
    effect: 'either',
    forgets: true,
    async begin({ server }) {
      await server.kill()
      await server.restart()
    },
    end: () => undefined,
  },
  {
    name: 'connection refused at the start',
    places: ['single', 'remote'],
    effect: 'outage',
    forgets: true,
    isAtStart: true,
    begin: ({ server }) => server.kill(),
    end: ({ server }) => server.restart(),
  },
  {
    name: 'frozen, and thawed',
    places: ALL,
    effect: 'outage',
    isLate: true,
    begin: ({ server }) => server.process.kill('SIGSTOP'),
    end: ({ server }) => server.process.kill('SIGCONT'),
  },
  network('network drops packets', 'hold'),
  network('network forgets connections, then resets them', 'lose'),
  network('network cuts replies', 'cut'),
  network('network resets connections', 'reset'),
  slow('replies take 80 % of the deadline', 0.8, 'none'),
  slow('replies take 120 % of the deadline', 1.2, 'outage'),
  {
    name: 'out of memory',
    places: BOTH,
    effect: 'outage',
    begin: ({ admins: [admin] }) => admin.config('SET', 'maxmemory', '1'),
    end: ({ admins: [admin] }) => admin.config('SET', 'maxmemory', '0'),
  },
  {
    name: 'read-only replica after a failover',
    places: ['single'],
    effect: 'outage',
    begin: ({ admins: [admin] }) => admin.replicaof('127.0.0.1', 1),
    end: ({ admins: [admin] }) => admin.replicaof('NO', 'ONE'),
  },
  {
    name: 'failover to a replica',
    places: ['cluster'],
    effect: 'either',
    hasReplica: true,
    begin: ({ replica }) => redisCli(replica!.port, 'CLUSTER', 'FAILOVER'),
    end: () => undefined,
  },
  {
    name: 'scripts and functions flushed',
    places: BOTH,
    effect: 'none',
    begin({ admins: [admin] }) {
      isFlushing = true
      void flush(admin)
    },
    end: () => {
      isFlushing = false
    },
  },
  { name: 'slot moved', places: ['cluster'], effect: 'either', begin: moveSlot, end: () => undefined },
  {
    name: 'wrong password',
    places: BOTH,
    effect: 'outage',
    password: 'old',
    async prepare({ admins: [admin], others }) {
      for (const { port } of others) redisCli(port, 'CONFIG', 'SET', 'requirepass', 'old')
      await admin.config('SET', 'requirepass', 'old')
    },
    async begin({ admins: [admin] }) {
      await admin.config('SET', 'requirepass', 'new')
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    },
    end: ({ admins: [admin] }) => admin.config('SET', 'requirepass', 'old'),
  },
  {
    name: 'CLIENT PAUSE',
    places: BOTH,
    effect: 'outage',
    isLate: true,
    begin: ({ admins: [admin] }, { lasts }) => admin.client('PAUSE', lasts, 'ALL'),
    end: () => undefined,
  },
  {
    name: 'busy script',
    places: BOTH,
    effect: 'outage',
    prepare: ({ admins: [admin] }) => admin.config('SET', 'lua-time-limit', 100),
    begin: ({ admins: [admin] }) => void admin.eval(LOOP, 0).catch(() => undefined),
    end: ({ admins: [, admin] }) => admin.script('KILL'),
  },
]

async function flush(admin: Redis): Promise<void> {
  while (isFlushing) {
    await admin.call('FUNCTION', 'FLUSH')
    await admin.script('FLUSH')
    await pause(50)
  }
}

/** Moves the slot of the tag to another server, key by key. */
async function moveSlot({ others: [other], tag, admins: [from] }: Place): Promise<void> {
  const to = new Redis(other!.port)
  const slot = slotOf(tag)
  const [fromId, toId] = (await Promise.all([from.cluster('MYID'), to.cluster('MYID')])) as string[]
  await to.cluster('SETSLOT', slot, 'IMPORTING', fromId!)
  await from.cluster('SETSLOT', slot, 'MIGRATING', toId!)
  for (const key of await from.cluster('GETKEYSINSLOT', slot, 100)) {
    await pause(20)
    await from.migrate('127.0.0.1', other!.port, key, 0, 5000)
  }
  await pause(20)
  for (const each of [to, from]) await each.cluster('SETSLOT', slot, 'NODE', toId!)
  to.disconnect()
}
