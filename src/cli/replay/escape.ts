import { escaped } from '../print.ts'

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Writes a text for HTML and SVG, between tags and in attributes. Control characters are written as JSON does. */
export function escapedHtml(text: string): string {
  return escaped(text).replaceAll(/[&<>"']/g, (each) => ENTITIES[each]!)
}
