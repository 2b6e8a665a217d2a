/** A channel of `node:diagnostics_channel`. A message is delivered to all subscribers in the process, at once. */
export interface Channel<Message extends object> {
  /** False while nobody subscribes: then a publisher need not make a message. */
  readonly hasSubscribers: boolean
  publish(message: Message): void
}

const silent: Channel<object> = { hasSubscribers: false, publish() {} }

/** Returns the channel of a name. Where the runtime has no `node:diagnostics_channel`, nobody can subscribe. */
export function channel<Message extends object>(name: string): Channel<Message> {
  // No import: bundles for browsers have no module of this name.
  const { process } = globalThis as { process?: Pick<NodeJS.Process, 'getBuiltinModule'> }
  return process?.getBuiltinModule?.('node:diagnostics_channel').channel(name) ?? silent
}
