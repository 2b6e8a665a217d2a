import { beforeEach, expect, it, vi } from 'vitest'
import { Silence } from '../../../src/stores/redis/silence.ts'

beforeEach(() => void vi.useFakeTimers())

/** Searches of the client, by the keys that it was given. The server of a key is its first letter. */
function watch(search: () => Promise<unknown> = async () => undefined): { silence: Silence; searches: string[] } {
  const searches: string[] = []
  const silence = new Silence(
    (key) => key[0]!,
    (key) => {
      searches.push(key)
      return search()
    },
  )
  return { silence, searches }
}

it('searches two to three seconds after the last answer, and then each second', () => {
  const { silence, searches } = watch()
  silence.sent('a1')
  vi.advanceTimersByTime(2999)
  expect(searches).toEqual([])
  vi.advanceTimersByTime(1)
  expect(searches).toEqual(['a1'])
  vi.advanceTimersByTime(2000)
  expect(searches).toEqual(['a1', 'a1', 'a1'])
})

it('an answer to any call ends the search, and a failure of the client does not', () => {
  const { silence, searches } = watch()
  silence.sent('a1')
  const [failed, answered] = [silence.sent('a2'), silence.sent('a3')]
  failed(false)
  vi.advanceTimersByTime(3000)
  expect(searches).toEqual(['a3'])
  answered(true)
  vi.advanceTimersByTime(2999)
  expect(searches).toEqual(['a3'])
})

it('calls that all fail at once are a silence, for as long as they are made', () => {
  const { silence, searches } = watch()
  for (let ms = 0; ms < 5000; ms += 250) {
    silence.sent('a1')(false)
    vi.advanceTimersByTime(250)
  }
  expect(searches).toEqual(['a1', 'a1', 'a1'])
  vi.advanceTimersByTime(60_000)
  expect(searches).toHaveLength(3)
})

it('a server that answers is never searched for, whatever the others do', () => {
  const { silence, searches } = watch()
  silence.sent('a1')
  for (let ms = 0; ms < 10_000; ms += 250) {
    silence.sent('b1')(true)
    vi.advanceTimersByTime(250)
  }
  expect(new Set(searches)).toEqual(new Set(['a1']))
})

it('searches once a second however many servers are silent, and by each of them in time', async () => {
  const { silence, searches } = watch()
  for (const key of ['a1', 'b1', 'c1']) silence.sent(key)
  await vi.advanceTimersByTimeAsync(102_000)
  expect(searches).toHaveLength(100)
  expect(new Set(searches)).toEqual(new Set(['a1', 'b1', 'c1']))
})

it('keeps at most ten searches that do not end', async () => {
  const { silence, searches } = watch(() => new Promise(() => undefined))
  silence.sent('a1')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(searches).toHaveLength(10)
})

it('goes on after a search that failed', async () => {
  const { silence, searches } = watch(() => Promise.reject(new Error('no server')))
  silence.sent('a1')
  await vi.advanceTimersByTimeAsync(30_000)
  expect(searches).toHaveLength(28)
})

it('a server whose keys have moved is no longer watched', () => {
  const searches: string[] = []
  let server = 'old'
  const silence = new Silence(
    () => server,
    async (key) => void searches.push(key),
  )
  silence.sent('a1')
  vi.advanceTimersByTime(3000)
  server = 'new'
  vi.advanceTimersByTime(60_000)
  expect(searches).toEqual(['a1'])
  expect(vi.getTimerCount()).toBe(0)
})

it('leaves no timer when nothing is under way, or when it is closed', () => {
  const { silence, searches } = watch()
  silence.sent('a1')(true)
  vi.advanceTimersByTime(2000)
  expect(vi.getTimerCount()).toBe(0)
  silence.sent('a1')
  silence.close()
  expect(vi.getTimerCount()).toBe(0)
  vi.advanceTimersByTime(60_000)
  expect(searches).toEqual([])
})
