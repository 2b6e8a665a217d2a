import { it } from 'vitest'
import { createLimiter, limit as make, memoryStore } from '../src/index.ts'
import { virtualClock } from '../src/testing.ts'
import { modelOf } from './support/model.ts'
import { CrowdTrial } from '../src/stores/crowd-trial.ts'
function dice(seed: number) { let state = (seed % 2_147_483_646) + 1; return (below: number) => (state = (state * 48_271) % 2_147_483_647) % below }
it('x', { timeout: 100000 }, () => {
  for (let rep = 0; rep < 20000; rep++) {
    const limit = make({ algorithm: 'tokenBucket', quota: 6, window: 1000, capacity: 2, refill: 'interval' })
    const clock = virtualClock(); const roll = dice(rep * 7919 + 13)
    let path = ''
    const orig = CrowdTrial.prototype.evaluate; const origM = CrowdTrial.prototype.moveOut
    CrowdTrial.prototype.evaluate = function (c, cr, n) { path = 'crowd'; orig.call(this, c, cr, n); path += JSON.stringify((cr as any).slots(c.key).map((s: number) => [(cr as any).slab.cells[(cr as any).slab.offset(s)], (cr as any).slab.cells[(cr as any).slab.offset(s) + 1] - 1767225600000000, (cr as any).slab.freshFrom(s) - 1767225600])) }
    CrowdTrial.prototype.moveOut = function (...a) { origM.apply(this, a); path += ' moveOut' }
    const limiter = createLimiter({ keyer: (k: string) => k, limits: limit, store: memoryStore({ clock, maxKeys: 20, onFull: () => undefined }) })
    const models = new Map<string, any>(); const log: any[] = []
    for (let i = 0; i < 400; i++) {
      if (roll(3) === 0) clock.advance(roll(limit.window * 300) / 1000)
      const key = `key ${roll(60)}`; path = 'own'
      const d = limiter.check(key); const t = Math.round(clock.now() * 1000)
      const m = models.get(key) ?? modelOf(limit, 1e6)!; models.set(key, m)
      log.push([i, key, t - 1767225600000000, d.allowed, d.limits[0]!.remaining, path])
      if (d.allowed) { if (!m.admits(t, 1)) { console.log(log.filter((l) => l[1] === key).slice(-6).map((x) => x.join(' ')).join('\n')); CrowdTrial.prototype.evaluate = orig; return } m.charge(t, 1) }
    }
    CrowdTrial.prototype.evaluate = orig; CrowdTrial.prototype.moveOut = origM
  }
})
