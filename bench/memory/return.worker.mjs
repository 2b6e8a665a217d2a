// What stays in use of the memory that keys took, once their time has passed and others have been decided on. Run with
// --expose-gc.
import { gcra } from 'sluice'
import { answer, job } from '../lib/worker.mjs'
import { held } from './held.mjs'
import { distinctKeys, inOrder, randomOrder } from './keys.mjs'
import { spend } from './spend.mjs'
import { MOST_KEYS, sluice } from './subjects.mjs'

let now = Date.now()
const clock = { now: () => now }
const subject = sluice([gcra({ quota: 100, window: '1m' })], { clock, maxKeys: MOST_KEYS })

const few = distinctKeys(1000, 'other')
const many = distinctKeys(job.keys)
await spend(subject, few, inOrder(few.length))
const empty = await held()
await spend(subject, many, inOrder(many.length))
const full = await held()
now += 3_600_000
await spend(subject, few, randomOrder(few.length, job.further))
const after = await held()
answer({
  held: (full - empty) / 2 ** 20,
  left: (after - empty) / 2 ** 20,
  share: (after - empty) / (full - empty),
})
