/** Longer texts are answered afresh, so that nobody can fill the memory with them. */
const LONGEST = 64

/**
 * A pure function of a text that keeps its latest answers: at least `size` and at most twice as many, whatever is asked.
 * Two generations, the older of which is dropped whole: cheaper than keeping order.
 */
export function remembered<Answer>(size: number, make: (text: string) => Answer): (text: string) => Answer {
  let young = new Map<string, Answer>()
  let old = new Map<string, Answer>()

  function keep(text: string, answer: Answer): Answer {
    if (young.size >= size) {
      old = young
      young = new Map()
    }
    young.set(text, answer)
    return answer
  }

  return function recall(text) {
    const known = young.get(text)
    if (known !== undefined) return known
    const before = old.get(text)
    if (before !== undefined) return keep(text, before)
    if (text.length > LONGEST) return make(text)
    const copy = detached(text)
    const answer = make(copy)
    return answer === undefined ? answer : keep(copy, answer)
  }
}

/**
 * A copy that shares no memory: a piece cut from a header keeps the whole header alive (4 KB a key, measured), while V8
 * copies pieces shorter than 13.
 */
function detached(text: string): string {
  let copy = ''
  for (let at = 0; at < text.length; at += 12) copy += text.slice(at, at + 12)
  return copy
}
