import { distinctKeys, inOrder, randomOrder } from './keys.mjs'
import { spend } from './spend.mjs'

/** Has a subject of its own compiled hot, so that what is measured next begins empty and runs at full speed. */
export async function warm(make) {
  const subject = await make()
  const keys = distinctKeys(20_000, 'w')
  await spend(subject, keys, inOrder(keys.length))
  await spend(subject, keys, randomOrder(keys.length, keys.length), { ms: 150 })
  await spend(subject, ['w0'], new Uint32Array(10_000), { ms: 100, most: 1_000_000 })
}
