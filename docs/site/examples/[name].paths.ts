import { readdirSync, readFileSync } from 'node:fs'

const folder = new URL('../../../examples/', import.meta.url)

interface ExamplePage {
  readonly params: { readonly name: string }
  readonly content: string
}

/** Makes a page of each program in examples/. */
function paths(): ExamplePage[] {
  const files = readdirSync(folder).filter((file) => file.endsWith('.ts'))
  return files.map((file) => ({ params: { name: file.slice(0, -'.ts'.length) }, content: pageOf(file) }))
}

function pageOf(file: string): string {
  return `# examples/${file}\n\n\`\`\`\`ts\n${readFileSync(new URL(file, folder), 'utf8')}\n\`\`\`\`\n`
}

// VitePress reads the default export.
// oxlint-disable-next-line import/no-default-export
export default { paths }
