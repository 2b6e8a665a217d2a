/** A channel of `node:diagnostics_channel`. A message is delivered to all subscribers in the process, at once. */
export interface Channel<Message extends object> {
  /** False if there is no subscriber. A publisher then creates no message. */
  readonly hasSubscribers: boolean
  publish(message: Message): void
  subscribe(listener: (message: Message) => void): void
  unsubscribe(listener: (message: Message) => void): void
}

const silent: Channel<never> = { hasSubscribers: false, publish() {}, subscribe() {}, unsubscribe() {} }

/** Returns the channel of a name. Where the runtime has no `node:diagnostics_channel`, there are no subscribers. */
export function channel<Message extends object>(name: string): Channel<Message> {
  // No import: bundles for browsers have no module of this name.
  const { process } = globalThis as { process?: Pick<NodeJS.Process, 'getBuiltinModule'> }
  const made: object | undefined = process?.getBuiltinModule?.('node:diagnostics_channel').channel(name)
  return (made as Channel<Message> | undefined) ?? silent
}
