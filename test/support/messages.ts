import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { afterTest } from './after-test.ts'

/** Collects the messages of a channel until the test ends. */
export function messagesOf<Message>(channel: string): Message[] {
  const received: Message[] = []
  const listener = (message: unknown): void => void received.push(message as Message)
  subscribe(channel, listener)
  afterTest(() => void unsubscribe(channel, listener))
  return received
}
