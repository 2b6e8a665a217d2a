import type { AsyncStore, SyncStore } from '../../src/index.ts'
import { remoteStore } from '../../src/testing/later-store.ts'
import { turns as settled } from '../../src/testing/waiting.ts'

export { settled }

/** A request that a test lets continue: first to the store, then back. */
export interface HeldRequest {
  apply(): Promise<void>
  reply(): Promise<void>
}

/** A store behind a connection on which each request waits until a test lets it continue. */
export interface HeldStore extends AsyncStore {
  readonly requests: HeldRequest[]
}

export function heldStore(inner: SyncStore): HeldStore {
  const requests: HeldRequest[] = []
  return {
    ...remoteStore(inner),
    requests,
    run(operation, reply) {
      const steps: (() => void)[] = []
      let isOpen = false
      // The way there is the first step, and the way back is the second one.
      const travel = (): Promise<void> => new Promise((resolve) => steps.push(resolve))
      const giveUp = remoteStore(inner, travel).run(operation, reply)
      const next = async (): Promise<void> => {
        steps.shift()?.()
        await settled()
      }
      requests.push({
        async apply() {
          isOpen = true
          await next()
        },
        async reply() {
          if (!isOpen) await this.apply()
          await next()
        },
      })
      return giveUp
    },
  }
}
