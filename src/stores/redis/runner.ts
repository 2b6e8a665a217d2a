import type { ScriptClient } from './clients.ts'
import {
  isFunctionMissing,
  isLibraryThere,
  isRefusedForNow,
  isScriptMissing,
  isTransient,
  isWithoutFunctions,
} from './failure.ts'
import type { Program } from './library.ts'

/** Milliseconds for which scripts replace functions after the server has refused every function that may write. */
const REFUSED = 1000
/**
 * Milliseconds before a missing library is loaded, at most. Processes that miss it at once load it one after another. The delay doubles while
 * loads follow one another within ten seconds.
 */
const FIRST_DELAY = 50
const LONGEST_DELAY = 5000
const QUIET = 10_000

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
  #lastLoad = -Infinity
  /** Loads that followed one another. */
  #loads = 0

  constructor(client: ScriptClient) {
    this.#client = client
    this.#hasFunctions = client.functions !== undefined
  }

  async run(program: Program, isPeek: boolean, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    if (!this.#callsFunctions(program)) return this.#evaluate(program, keys, args)
    try {
      return await this.#client.functions!.call(isPeek ? program.peekName : program.name, keys, args)
    } catch (error) {
      if (!this.#hasNotRun(program, error)) throw error
      return this.#evaluate(program, keys, args)
    }
  }

  #callsFunctions({ name }: Program): boolean {
    if (!this.#hasFunctions || this.#loading === name) return false
    return this.#refusedUntil === 0 || performance.now() >= this.#refusedUntil
  }

  /** Returns true when the server has refused a function before it ran, and chooses the next step. */
  #hasNotRun(program: Program, error: unknown): boolean {
    if (isFunctionMissing(error)) void this.#load(program)
    else if (isWithoutFunctions(error)) this.#hasFunctions = false
    else if (isRefusedForNow(error)) this.#refusedUntil = performance.now() + REFUSED
    else return false
    return true
  }

  /** Loads the library on all primaries after a delay. Until then, scripts are used. */
  async #load({ name, library }: Program): Promise<void> {
    if (this.#loading === name) return
    this.#loading = name
    await pause(Math.random() * this.#delay())
    try {
      const results = await Promise.allSettled(this.#client.functions!.load(library))
      const refused = results.some((each) => each.status === 'rejected' && isRefusedForGood(each.reason))
      if (refused) this.#hasFunctions = false
    } catch {
      // The client threw, such as one that is closed. The next missing function loads again.
    } finally {
      if (this.#loading === name) this.#loading = undefined
    }
  }

  #delay(): number {
    const now = performance.now()
    this.#loads = now - this.#lastLoad < QUIET ? this.#loads + 1 : 0
    this.#lastLoad = now
    return Math.min(FIRST_DELAY * 2 ** this.#loads, LONGEST_DELAY)
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

/** Any refusal but one that may be over soon. */
function isRefusedForGood(reason: unknown): boolean {
  return !isLibraryThere(reason) && !isRefusedForNow(reason) && !isTransient(reason)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
