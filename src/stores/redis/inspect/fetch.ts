import type { ScriptClient } from '../clients.ts'

/** The fields of a hash in Redis. */
export interface Stored {
  /** The server's time in microseconds. */
  readonly now: number
  /** Milliseconds until Redis deletes the hash; −1 for never, −2 if it does not exist. */
  readonly ttl: number
  readonly fields: ReadonlyMap<string, Buffer>
}

/** Replies in hexadecimal digits: values are binary, and clients decode binary replies differently. */
const SCRIPT = `
local function hex(text)
  return (string.gsub(text, '.', function(each) return string.format('%02x', string.byte(each)) end))
end
local time = redis.call('TIME')
local reply = { time[1], time[2], tostring(redis.call('PTTL', KEYS[1])) }
for _, each in ipairs(redis.call('HGETALL', KEYS[1])) do reply[#reply + 1] = hex(each) end
return reply
`

/** Reads a hash, its expiry and the time in one call. */
export async function fetchHeld(runner: ScriptClient, key: string): Promise<Stored> {
  const [seconds, micros, ttl, ...rest] = ((await runner.eval(SCRIPT, [key], [])) as unknown[]).map(String)
  const fields = new Map<string, Buffer>()
  for (let i = 0; i < rest.length; i += 2) {
    fields.set(Buffer.from(rest[i]!, 'hex').toString(), Buffer.from(rest[i + 1]!, 'hex'))
  }
  return { now: Number(seconds) * 1_000_000 + Number(micros), ttl: Number(ttl), fields }
}
