/** The texts of a denial. */
export interface PageTexts {
  readonly status: number
  readonly title: string
  readonly detail: string
}

/** Returns a denial as a page. It has no script, no style and no link, so that every `Content-Security-Policy` allows it. */
export function denialPage({ status, title, detail }: PageTexts): string {
  const heading = escaped(title)
  return (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">' +
    '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">' +
    `<title>${status} ${heading}</title></head><body><main><h1>${heading}</h1><p>${escaped(detail)}</p></main></body></html>\n`
  )
}

/** Names of limits may contain any ASCII character. */
function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
