// Many more distinct keys than `maxKeys`: what happens to resident memory, and to keys that were being denied. Run with
// --expose-gc.
import { gcra } from 'sluice'
import { answer, job } from '../lib/worker.mjs'
import { sluice } from './subjects.mjs'

const DENIED = 1000
const { decide } = sluice([gcra({ quota: 10, window: '1d' })], { maxKeys: job.maxKeys })

for (let i = 0; i < DENIED; i++) for (let asked = 0; asked < 20; asked++) decide(`denied-${i}`)

// What comes into being when a store is full for the first time belongs to what it takes, so flat is what follows.
const settled = 2 * job.maxKeys
let first = 0
let most = 0
for (let seen = 1; seen <= job.keys; seen++) {
  // Short enough to be flat texts from the start.
  decide(`f${seen}`)
  if (seen < settled || seen % job.maxKeys !== 0) continue
  globalThis.gc()
  const { rss } = process.memoryUsage()
  if (seen === settled) first = rss
  most = Math.max(most, rss)
}

let admitted = 0
for (let i = 0; i < DENIED; i++) if (decide(`denied-${i}`).allowed) admitted++
answer({ first: first / 2 ** 20, most: most / 2 ** 20, growth: most / first, admitted })
