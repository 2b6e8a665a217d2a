import type { ScriptClient } from '../../stores/redis/clients.ts'

/** Keys that one SCAN looks at. Redis does nothing else meanwhile: about a millisecond. */
const COUNT = 1000

const SCAN = `local reply = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'hash')
return { reply[1], unpack(reply[2]) }`
const SIZE = `return redis.call('DBSIZE')`

/** A key and the server that has it. */
export interface FoundKey {
  readonly runner: ScriptClient
  readonly name: string
}

/** Goes through the keys of all servers, part by part. After the last key it begins again. */
export class KeyScan {
  readonly #runners: readonly ScriptClient[]
  readonly #pattern: string
  #server = 0
  #cursor = '0'

  constructor(runners: readonly ScriptClient[], prefix: string) {
    this.#runners = runners
    this.#pattern = `${prefix.replaceAll(/[*?[\]\\]/g, '\\$&')}*`
  }

  /** Calls `found` with the next keys until it has looked at about so many, or at all. True if this was the end. */
  async next(count: number, found: (keys: readonly FoundKey[]) => Promise<void>): Promise<boolean> {
    for (let looked = 0; looked < count; looked += COUNT) {
      const runner = this.#runners[this.#server]!
      const args = [this.#cursor, this.#pattern, String(COUNT)]
      const [cursor, ...names] = ((await runner.eval(SCAN, [], args)) as unknown[]).map(String)
      this.#cursor = cursor!
      await found(names.map((name) => ({ runner, name })))
      if (cursor === '0' && this.#nextServer()) return true
    }
    return false
  }

  /** How many keys the servers have, of all kinds. */
  async size(): Promise<number> {
    const sizes = await Promise.all(this.#runners.map((runner) => runner.eval(SIZE, [], [])))
    return sizes.reduce<number>((sum, size) => sum + Number(size), 0)
  }

  #nextServer(): boolean {
    this.#server = (this.#server + 1) % this.#runners.length
    return this.#server === 0
  }
}
