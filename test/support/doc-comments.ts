import { posix } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }
import { sources } from './codes.ts'

/** A name that users of the package can import. */
export interface Declaration {
  readonly name: string
  readonly kind: 'function' | 'const' | 'class' | 'interface' | 'type'
  readonly file: string
  /** The doc-comment, or `''`. */
  readonly comment: string
  readonly body: string
}

/** The modules of the package and their source files, such as `sluice/express` and `adapters/express/index.ts`. */
export const entries: ReadonlyMap<string, string> = new Map(
  Object.entries(manifest.exports).flatMap(([path, target]) =>
    typeof target === 'string'
      ? []
      : [[posix.join('sluice', path), target.import.types.replace('./dist/', '').replace('.d.ts', '.ts')] as const],
  ),
)

const COMMENT = String.raw`(?<comment>/\*\*(?:(?!\*/)[^])*\*/\n)?`

/** Returns the declarations in a file that its other files, or its users, can import. */
function declarationsIn(file: string): Declaration[] {
  const pattern = new RegExp(
    String.raw`^${COMMENT}export (?:declare )?(?:abstract )?(?:async )?(?<kind>function|const|class|interface|type) (?<name>\w+)(?<body>[^]*?)(?=^\S|$(?![^]))`,
    'gm',
  )
  return [...sources.get(file)!.matchAll(pattern)].map(({ groups }) => ({
    name: groups!['name']!,
    kind: groups!['kind'] as Declaration['kind'],
    file,
    comment: groups!['comment'] ?? '',
    body: groups!['body']!,
  }))
}

/** Returns what a module exports, from its own file and from others. */
export function exportsOf(file: string): Declaration[] {
  const seen = new Set<string>()
  const own = declarationsIn(file).filter(({ name }) => !seen.has(name) && seen.add(name))
  const text = sources.get(file)!
  const passedOn = [...text.matchAll(/^export (?:type )?\{([^}]*)\}(?: from '(\.[^']+)')?/gm)]
  const all = [...text.matchAll(/^export \* from '(\.[^']+)'/gm)]
  const beside = (other: string): string => posix.join(posix.dirname(file), other)
  return [
    ...own,
    ...all.flatMap(([, other]) => exportsOf(beside(other!))),
    ...passedOn.flatMap(([, names, from]) => namesIn(names!).flatMap((name) => found(name, from))),
  ]

  /** Finds a name that is exported from another file, or that was imported from it before. */
  function found(wanted: string, from: string | undefined): Declaration[] {
    const imports = [...text.matchAll(/^import (?:type )?\{([^}]*)\} from '(\.[^']+)'/gm)]
    const other = from ?? imports.find(([, names]) => namesIn(names!).includes(wanted))![2]!
    return exportsOf(beside(other)).filter(({ name }) => name === wanted)
  }
}

/** Returns the names between the braces of an import or an export. */
function namesIn(list: string): string[] {
  return list.split(',').flatMap((each) => /^\s*(?:type )?(\w+)/.exec(each)?.[1] ?? [])
}

/** Returns the members of an interface or a class that have no doc-comment. Those of a base have it there. */
export function bareMembers({ kind, body }: Declaration): string[] {
  if (kind !== 'interface' && kind !== 'class') return []
  const members = body.matchAll(/(?<!\*\/)\n {2}(?:(?:readonly|protected|override|static|get|async) )*(\w+)\??[(:<]/g)
  // The first of several overloads has the comment of all.
  const isOverload = (name: string): boolean => new RegExp(String.raw`\*/\n {2}${name}\(`).test(body)
  return [...members]
    .map(([, name]) => name!)
    .filter((name) => name !== 'constructor' && !isOverload(name) && !inheritsComment(name, body))
}

/** True if a base of an interface or a class, or a base of that one, documents the member. */
function inheritsComment(member: string, ofBody: string): boolean {
  const bases = /^[^{]*\b(?:extends|implements) ([^{]*)/.exec(ofBody)?.[1]?.match(/\w+/g) ?? []
  const documented = new RegExp(String.raw`\*/\n {2}(?:readonly )?${member}\??[(:<]`)
  return bases.some((base) =>
    [...sources.keys()]
      .flatMap(declarationsIn)
      .some(({ name, body }) => name === base && (documented.test(body) || inheritsComment(member, body))),
  )
}

/** Returns the code of the examples in a doc-comment, or in all of a declaration. */
export function examplesIn(text: string): string[] {
  return [...text.matchAll(/\/\*\*((?:(?!\*\/)[^])*)\*\//g)].flatMap(([, comment]) => {
    const lines = comment!.split('\n').map((line) => line.replace(/^\s*\* ?/, ''))
    return lines
      .join('\n')
      .split(/^@example\s/m)
      .slice(1)
      .map((example) =>
        example
          .split(/^@/m)[0]!
          .trim()
          .replaceAll(String.raw`*\/`, '*/'),
      )
  })
}
