import type { ScriptClient } from './clients.ts'
import {
  isBusyLoading,
  isFunctionMissing,
  isLibraryThere,
  isRefusedForNow,
  isScriptMissing,
  isWithoutFunctions,
} from './failure.ts'
import type { Program } from './library.ts'

/** Milliseconds for which scripts stand in for functions when the server refuses every function that may write. */
const REFUSED = 1000
/** Milliseconds before a missing library is loaded, at most: processes that miss it at once load it one after another. */
const FIRST_DELAY = 50
const LONGEST_DELAY = 30_000

/**
 * Runs a program: as a function where the server has functions, else as a script. The text is the same, so a call means the same. A call
 * is sent a second time only when the server has said that the first one did not run.
 */
export class Runner {
  readonly #client: ScriptClient
  #hasFunctions: boolean
  #refusedUntil = 0
  /** The program whose library is being loaded. */
  #loading: string | undefined
  /** Loads since a function was last found. */
  #loads = 0

  constructor(client: ScriptClient) {
    this.#client = client
    this.#hasFunctions = client.functions !== undefined
  }

  async run(program: Program, isPeek: boolean, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    if (!this.#callsFunctions(program)) return this.#evaluate(program, keys, args)
    try {
      const reply = await this.#client.functions!.call(isPeek ? program.peekName : program.name, keys, args)
      this.#loads = 0
      return reply
    } catch (error) {
      if (!this.#hasNotRun(program, error)) throw error
      return this.#evaluate(program, keys, args)
    }
  }

  #callsFunctions({ name }: Program): boolean {
    if (!this.#hasFunctions || this.#loading === name) return false
    return this.#refusedUntil === 0 || performance.now() >= this.#refusedUntil
  }

  /** Whether the server has said that a function did not run; and sees to what follows from it. */
  #hasNotRun(program: Program, error: unknown): boolean {
    if (isFunctionMissing(error)) void this.#load(program)
    else if (isWithoutFunctions(error)) this.#hasFunctions = false
    else if (isRefusedForNow(error)) this.#refusedUntil = performance.now() + REFUSED
    else return false
    return true
  }

  async #load({ name, library }: Program): Promise<void> {
    if (this.#loading === name) return
    this.#loading = name
    await pause(Math.random() * Math.min(FIRST_DELAY * 2 ** this.#loads++, LONGEST_DELAY))
    const results = await Promise.allSettled(this.#client.functions!.load(library))
    const failures = results.flatMap((each) => (each.status === 'rejected' ? [each.reason as unknown] : []))
    const refused = failures.filter((each) => !isLibraryThere(each))
    if (refused.some((each) => !isRefusedForNow(each) && !isBusyLoading(each))) this.#hasFunctions = false
    if (this.#loading === name) this.#loading = undefined
  }

  async #evaluate({ sha, script }: Program, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    try {
      return await this.#client.evalsha(sha, keys, args)
    } catch (error) {
      if (!isScriptMissing(error)) throw error
      return this.#client.eval(script, keys, args)
    }
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
