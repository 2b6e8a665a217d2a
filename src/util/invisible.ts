/**
 * Writes control characters, and characters that are invisible or change the direction of text, as JSON does. So they do not change how the text beside
 * them is shown, and two keys do not look the same.
 * @param except a character that stays, such as a line feed. Default: none
 */
export function showInvisible(text: string, except = ''): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (each) =>
    each === except ? each : each.replaceAll(/[^]/g, codeOf),
  )
}

function codeOf(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}
