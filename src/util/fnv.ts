/** Returns the FNV-1a hash of a text, from 0 to 2³² − 1. It is fast, and no protection: anybody can find two texts with one hash. */
export function fnv1a(text: string): number {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
  return hash >>> 0
}
