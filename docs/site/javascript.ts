// Makes JavaScript of the TypeScript of a page. The pages, their tests and the site use the same texts.
import { Script } from 'node:vm'
import { transformSync } from '@swc/wasm-typescript'
import { formatted } from '../../build/format.mjs'

/** A program in JavaScript. */
export interface JavaScript {
  /** The program as an ES module. */
  readonly module: string
  /** The program with `require`. */
  readonly commonJs: string
}

/** Comments of a type, which nobody needs without it. */
const COMMENTS_OF_TYPES = /^(?:\/\/.*\n|\/\*\*(?:(?!\*\/)[^])*\*\/\n)+(?=(?:export )?(?:interface|type) )/gm

const IMPORT = /^import (?:(\w+)(?:, )?)?(?:\{([^}]*)\})?(?: from )?'([^']+)'( \/\/.*)?\n/gm

/** Returns a program of TypeScript as JavaScript, or undefined if it has decorators, which JavaScript does not have yet. */
export async function javaScriptOf(program: string): Promise<JavaScript | undefined> {
  if (/^\s*@\w+\(/m.test(program)) return undefined
  const { code } = transformSync(program.replaceAll(COMMENTS_OF_TYPES, ''), { mode: 'strip-only' })
  const module = await formatted(code.replaceAll(/^(?:import \{\s*\} from .*| +)\n/gm, ''), 'module.js')
  return { module, commonJs: await formatted(required(module), 'common.js') }
}

/** Returns an ES module as CommonJS. With `await` outside of functions, it becomes a function. */
function required(module: string): string {
  const names: string[] = []
  const code = module
    .replaceAll(IMPORT, (_, whole?: string, parts?: string, from?: string, comment = '') => {
      const taken = [whole, parts && `{${parts.replaceAll(' as ', ': ')}}`].filter((each) => each !== undefined)
      const lines = taken.map((each) => `const ${each} = require('${from}')${comment}\n`)
      return lines.join('') || `require('${from}')${comment}\n`
    })
    .replaceAll(/^export default /gm, 'module.exports = ')
    .replaceAll(/^export ((?:const|async function|function|class) (\w+))/gm, (_, start: string, name: string) => {
      names.push(name)
      return start
    })
  const exported = names.length === 0 ? '' : `\nmodule.exports = { ${names.join(', ')} }\n`
  return inFunction(code) + exported
}

/** Returns a program in which everything from the first paragraph with `await` is in a function. */
function inFunction(code: string): string {
  const paragraphs = code.split(/\n\n(?=\S)/)
  const first = paragraphs.findIndex((each) => !isScript(each))
  if (first === -1) return code
  const [before, after] = [paragraphs.slice(0, first), paragraphs.slice(first)].map((part) => part.join('\n\n'))
  return `${before}\n\nasync function main() {\n${after}\n}\n\nmain()\n`
}

function isScript(code: string): boolean {
  try {
    return new Script(code) instanceof Script
  } catch {
    return false
  }
}

/** The JavaScript of an example in Markdown. The site leaves it out, because its examples have tabs. */
const BESIDE = /\n<details>\n<summary>The same in JavaScript<\/summary>\n[^]*?<\/details>\n/g

/** Returns a page whose programs of TypeScript have tabs. */
export async function withTabs(markdown: string): Promise<string> {
  const parts = markdown.replaceAll(BESIDE, '').split(/^```ts\n([^]*?)^```\n/m)
  const shown = await Promise.all(parts.map((part, i) => (i % 2 === 0 ? part : tabsOf(part))))
  return shown.join('')
}

async function tabsOf(program: string): Promise<string> {
  const made = await javaScriptOf(program)
  if (made === undefined) return `\`\`\`ts\n${program}\`\`\`\n`
  const { module, commonJs } = made
  const tabs = { 'ts [TypeScript]': program, 'js [ES modules]': module, 'js [CommonJS]': commonJs }
  const fences = Object.entries(tabs).map(([label, code]) => `\`\`\`${label}\n${code}\`\`\`\n`)
  return `::: code-group\n\n${fences.join('\n')}\n:::\n`
}

/**
 * Returns what stands below the first example of a page: its JavaScript, or a sentence if it is JavaScript already.
 * @param start the way from the page to the first page
 */
export async function besideOf(program: string, start: string): Promise<string> {
  const made = await javaScriptOf(program)
  if (made === undefined)
    return '\nThe decorators of this example need a compiler: TypeScript, or Babel for JavaScript.\n'
  const { module, commonJs } = made
  const ports = commonJs.includes('\nmodule.exports = ') ? 'imports and exports' : 'imports'
  const isInFunction = commonJs.includes('\nmain()\n')
  const differs = isInFunction ? `the ${ports} differ, and \`await\` is in a function` : `only the ${ports} differ`
  const link = `With [\`require\`](${start}#javascript), ${differs}.`
  if (module === program) return `\nThis example is also JavaScript. ${link}\n`
  return `\n<details>\n<summary>The same in JavaScript</summary>\n\n\`\`\`js\n${module}\`\`\`\n\n${link}\n\n</details>\n`
}
