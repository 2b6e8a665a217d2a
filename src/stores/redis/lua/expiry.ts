/**
 * Until when a hash is known to be kept (`kept`) when what it holds lasts for so many seconds (`lasting`), and for how long that is
 * if its expiry must be seen to (`needed`): for longer than needed, so that this is seldom. Like `luaSay` it stands in its place.
 */
export const luaKeep: string = `
  local needed
  if second + lasting + slack > kept then
    needed = lasting + slack + min(max(lasting / 4, 2), 3600)
    kept = foreign and 0 or floor(second + needed)
  end
`

/** Sees to it that a key is kept for so many seconds; if it is not, it is kept for longer. */
export function luaProlong(key: string, seconds: string, longer: string): string {
  return `if call('PTTL', ${key}) < (${seconds}) * 1000 then call('PEXPIRE', ${key}, ceil((${longer}) * 1000)) end`
}
