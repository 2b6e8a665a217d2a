import { expect, it, onTestFinished, vi } from 'vitest'
import { repeatedLooks } from '../../src/rules/looks.ts'

it('a source is read soon after a notice, however often there is one', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const look = vi.fn(async () => 2000)
  const looks = repeatedLooks(look, () => 20)
  onTestFinished(() => looks.stop())
  await vi.advanceTimersByTimeAsync(0)
  for (let ms = 0; ms < 1000; ms += 5) {
    looks.notice()
    await vi.advanceTimersByTimeAsync(5)
  }
  expect(look).toHaveBeenCalledTimes(51)
  // None is left over.
  await vi.advanceTimersByTimeAsync(1900)
  expect(look).toHaveBeenCalledTimes(51)
  await vi.advanceTimersByTimeAsync(200)
  expect(look).toHaveBeenCalledTimes(52)
})
