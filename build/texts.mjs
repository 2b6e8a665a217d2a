// Files that modules of the package import as texts. The build and the tests read them in the same way.
import { readFile } from 'node:fs/promises'
import { rolldown } from 'rolldown'

/**
 * A plugin for rolldown and for Vite. `?raw` is the text of a file, of a Lua file without its comments. `?script` is a program for
 * browsers: a TypeScript file and all that it imports, as one module.
 */
export function texts() {
  return {
    name: 'texts',
    // Vite has its own way to read style sheets.
    enforce: 'pre',
    async load(id) {
      const [file, query] = id.split('?')
      if (query !== 'raw' && query !== 'script') return undefined
      const text = query === 'raw' ? await readFile(file, 'utf8') : await scriptOf(file)
      const code = `export default ${JSON.stringify(file.endsWith('.lua') ? shortLua(text) : text)}`
      return { code, moduleType: 'js', moduleSideEffects: false }
    },
  }
}

/** Returns Lua without comments and indents. Lines keep their numbers, which errors have. */
export function shortLua(text) {
  return text.replaceAll(/^ *(?:--.*)?/gm, '')
}

async function scriptOf(input) {
  const bundle = await rolldown({ input, platform: 'browser', tsconfig: false })
  const { output } = await bundle.generate({ format: 'esm', comments: false, minify: true })
  await bundle.close()
  return output[0].code
}
