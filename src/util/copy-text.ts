/** V8 copies shorter parts of a text by itself. */
const SHORTEST_SHARED = 13

/**
 * Returns a copy of a text that shares no memory with others. A part of a header keeps the whole header in memory: 15 kB for
 * a key of 32 characters, measured. Joining and cutting makes V8 write a new text.
 */
export function copyText(text: string): string {
  return text.length < SHORTEST_SHARED ? text : ` ${text}`.slice(1)
}
