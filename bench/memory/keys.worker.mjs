// Many keys of one subject: nanoseconds per decision when each is new and when they come at random, and the bytes that a key
// takes beyond its string. Needs --expose-gc.
import { entry } from '../lib/entry.mjs'
import { finish, job } from '../lib/worker.mjs'
import { bytesInUse } from './bytes.mjs'
import { distinctKeys, inOrder, randomOrder } from './keys.mjs'
import { roomy, roomyLimit } from './limits.mjs'
import { timed, warmUp } from './loop.mjs'
import { pollute } from './pollute.mjs'
import { others, ours } from './subjects.mjs'

const { name, root, polluted, keys: count } = job

async function maker() {
  if (root === undefined) return () => others[name](roomy)
  const sluice = await entry(root, 'sluice')
  if (polluted) pollute(sluice)
  const limit = roomyLimit(sluice)
  return () => ours(sluice, [limit])
}

const make = await maker()
await warmUp(make)
const keys = distinctKeys(count)
const everyKey = inOrder(count)
const before = await bytesInUse()
const subject = await make()
const first = await timed(subject, keys, everyKey)
const bytes = ((await bytesInUse()) - before) / count
const random = await timed(subject, keys, randomOrder(count, count))
finish({ first, random, bytes })
