// Bytes a key takes beyond its text. Run with --expose-gc.
import { answer, job } from '../lib/worker.mjs'
import { held } from './held.mjs'
import { distinctKeys, inOrder } from './keys.mjs'
import { roomy } from './limits.mjs'
import { spend } from './spend.mjs'
import { subjects } from './subjects.mjs'
import { warm } from './warm.mjs'

const make = () => subjects[job.subject](roomy, job.keys)
await warm(make)
const keys = distinctKeys(job.keys)
const order = inOrder(keys.length)
const before = await held()
const subject = await make()
await spend(subject, keys, order)
const after = await held()
answer({ bytes: (after - before) / keys.length, keys: keys.length, alive: typeof subject.decide })
