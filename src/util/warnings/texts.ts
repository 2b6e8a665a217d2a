// Texts of warnings that few programs need.

/** The texts by code. `limiter` and `limit` are names. */
export const texts = {
  SLUICE_ALTERNATING_LIMITS: (limiter: string, limit: string): string =>
    `Limiter "${limiter}" has different limits with the name "${limit}" in turn for one key. They share one usage, so requests under one of them are ` +
    'denied because of requests under the other. If their windows or algorithms differ, each change also forgets usage, and they deny almost nothing. ' +
    'Give each of them its own `name`.',
  SLUICE_COUNTS_LOST: (server: string, minutes: number): string =>
    `${server} has lost a key ${minutes} minute${minutes === 1 ? '' : 's'} before its end. So counts are lost, and their keys start from zero: limits admit too many requests. The server ` +
    'removes keys to free memory, was restarted without its data, or was emptied. Look at `evicted_keys` of INFO stats. Give limits a server with ' +
    'enough memory, and `maxmemory-policy noeviction`.',
  SLUICE_CREATED_PER_REQUEST: (): string =>
    'A hundred limiters with the same keyer and with counts of their own were created, and each was dropped after one decision. A limiter that is ' +
    'created in a handler starts from zero on every request, so it never denies one. Create it once, outside of the handler, or give it a `store` that ' +
    'is created once.',
  SLUICE_FORGOTTEN_RECEIPTS: (most: number): string =>
    `A memory store knows what was done with the last ${most} receipts. One that is older was used, so nothing changes: it may have been settled or ` +
    'released before. Set a shorter `receiptFor`, so that less has to be known, or use a store in a database.',
  SLUICE_MANY_LIMITS: (most: number): string =>
    `A memory store has ${most} limits with different names. The keys of further limits share counters and may be limited too early. Put user data ` +
    'into the key, not into the name of a limiter or limit.',
  SLUICE_MAX_KEYS: (limiter: string, limit: string, maxKeys: number): string =>
    `Limit "${limit}" of limiter "${limiter}" has reached \`maxKeys\`, ${maxKeys}. New keys share counters and may be limited too early. Look for a ` +
    'flood of random keys. If the keys are real, increase `maxKeys`.',
  SLUICE_NOT_CHARGED: (isAllowed: boolean): string =>
    `refund or settle was called with a decision ${isAllowed ? 'from `peek`' : 'that denied the request'}. It charged nothing, so nothing changes.`,
  SLUICE_NOT_LIMITED: (): string =>
    'block, pause or penalize was called for an input that no limit can deny, so nothing changes.',
  SLUICE_NO_LIMITS: (limiter: string): string =>
    `createLimiter: \`limits\` is empty, so limiter "${limiter}" admits every request.`,
  SLUICE_PER_PROCESS: (): string =>
    "An app with several processes or threads uses memoryStore(), or SQLite with ':memory:'. Each process counts by itself, so together they admit a " +
    'multiple of each limit. Use a ' +
    "store that all processes share, such as redisStore(client) from 'sluice/redis', or on one machine machineStore() from 'sluice/machine'. If each " +
    'process should have its own limits, start node with --disable-warning=SLUICE_PER_PROCESS.',
  SLUICE_ROWS_LOST: (database = 'A database of rowStore'): string =>
    `${database} has lost ten writes: each row was read again as it was before it was written. So limits admit too many requests. Look for a write that ` +
    'is not awaited, not committed or ignored, for a read from a replica or cache, and for a `swap` that returns true although nothing was stored.',
  SLUICE_SHARED_COUNTERS: (): string =>
    'reset, refund, settle or block was called for a key beyond `maxKeys`. The key shares its counters with other keys, so nothing is refunded, and no ' +
    'lock-out becomes shorter. If the keys are real, increase `maxKeys`.',
  SLUICE_SLOT_LOST: (limiter: string, limit: string): string =>
    `A request that runs has lost its slot of the limit "${limit}" of limiter "${limiter}": its key was reset, or the slot was gone and all others are ` +
    'taken. Another request may run in its place. `onSlotLost` is called instead of this warning.',
  SLUICE_UNIDENTIFIED: (limiter: string, keyer: string): string =>
    `The keyer ${keyer === '' || keyer === 'keyer' ? '' : `${keyer} `}of limiter "${limiter}" returned undefined, null or ''. All requests without a key ` +
    'share one bucket, so one client can use the quota of all others. Return a key for each request, or exempt such requests with `skip`. A keyer that ' +
    'reads the body needs the parser before the limit.',
} as const
