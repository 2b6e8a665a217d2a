import { expect, it, vi } from 'vitest'
import { Health } from '../../../src/stores/guard/health.ts'

it('knows at most 1,000 parts, also if all of them are out, and stops the probes of those that it forgets', () => {
  vi.useFakeTimers()
  const probed = new Set<string>()
  const health = new Health(
    { least: 50, most: 1000 },
    {
      partOf: (_, key) => key,
      trouble: () => undefined,
      probe: ({ name }) => void probed.add(name),
      changed: () => undefined,
      lost: () => undefined,
    },
  )
  const failed = new Error('away')
  for (let i = 0; i < 3000; i++)
    health.part('api', `key ${i}`).failed({ sent: performance.now(), deadline: 1000 }, failed)
  expect(health.out).toBe(1000)
  expect(health.part('api', 'key 2999').isOut).toBe(true)
  vi.advanceTimersByTime(400)
  expect(probed.size).toBe(1000)
  expect(probed.has('key 2999')).toBe(true)
  health.stop()
})
