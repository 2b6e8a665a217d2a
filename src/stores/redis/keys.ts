/** The default prefix of keys in Redis. */
export const PREFIX = 'sluice:'

/** Where a limiter's key lives in Redis. */
export function redisKey(prefix: string, limiter: string, key: string): string {
  return `${prefix}${limiterText(limiter)}:${keyText(key)}`
}

/** Printable, and without the characters that would end it or make a hash tag. */
function limiterText(limiter: string): string {
  return limiter.replaceAll(/[%:{}]/g, (character) => `%${character.charCodeAt(0).toString(16)}`)
}

/** The limiter and the key of a name in Redis, or `undefined` for a name that no limiter has. The key is as it is stored. */
export function readRedisKey(prefix: string, name: string): { limiter: string; key: string } | undefined {
  const end = name.indexOf(':', prefix.length)
  if (!name.startsWith(prefix) || end === -1) return undefined
  const limiter = name.slice(prefix.length, end).replaceAll(/%(25|3a|7b|7d)/g, (text) => decodeURIComponent(text))
  return { limiter, key: name.slice(end + 1) }
}

/** Lone surrogates have no UTF-8: such a key is written as JSON, and so is one that could be taken for it. */
export function keyText(key: string): string {
  return key.startsWith('"') || !isWellFormed(key) ? JSON.stringify(key) : key
}

function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed()
}
