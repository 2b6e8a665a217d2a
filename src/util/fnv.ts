/** Returns the FNV-1a hash of a text, from 0 to 2³² − 1. It is fast but not secure: anybody can find two texts with the same hash. */
export function fnv1a(text: string, seed = 0): number {
  let hash = seed ^ 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}

/** Returns a hash of a text with 32 well mixed bits: FNV-1a over UTF-16, with a seed and the last step of MurmurHash3. */
export function mixedHash(text: string, seed = 0): number {
  let hash = fnv1a(text, seed)
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
