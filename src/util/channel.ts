import { builtin } from './builtin.ts'

/** A channel of `node:diagnostics_channel`. A message is delivered to all subscribers in the process, at once. */
export interface Channel<Message extends object> {
  /** False if there is no subscriber. A publisher then creates no message. */
  readonly hasSubscribers: boolean
  publish(message: Message): void
  subscribe(listener: (message: Message) => void): void
  unsubscribe(listener: (message: Message) => void): void
}

const silent: Channel<never> = { hasSubscribers: false, publish() {}, subscribe() {}, unsubscribe() {} }

/** Returns the channel with a name. If the runtime has no `node:diagnostics_channel`, the channel never has subscribers. */
export function channel<Message extends object>(name: string): Channel<Message> {
  const channels = builtin('node:diagnostics_channel') as { channel(name: string): object } | undefined
  const made = channels?.channel(name)
  return (made as Channel<Message> | undefined) ?? silent
}
