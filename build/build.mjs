// Builds the package: a file for each entry point, and chunks that they share. `dist` gets ES modules, `dist/cjs` gets CommonJS, and
// both get types. `node build/build.mjs <folder>` builds into another folder. The build checks no types: `npm run typecheck` does.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { rolldown } from 'rolldown'
import { parseAst } from 'rolldown/parseAst'
import { dts } from 'rolldown-plugin-dts'
import { texts } from './texts.mjs'

/** Small packages that become part of the build. They are not installed, and a program does not load their files one by one. */
const BUILT_IN = ['cluster-key-slot', 'rou3']

const root = join(import.meta.dirname, '..')
const out = process.argv[2] ?? join(root, 'dist')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const entries = Object.values(manifest.exports).flatMap((target) => target.import?.default ?? [])

/** Source files by the names of their outputs: `src/index` is built from `src/index.ts`. */
function inputs(files) {
  const names = files.map((file) => posix.normalize(file).slice('dist/'.length, -'.js'.length))
  return Object.fromEntries(names.map((name) => [name, `./${name}.ts`]))
}

/** So many entry points are almost all. */
const most = Math.floor(0.7 * entries.length)
/**
 * Modules that are one file, since each file takes time to load. A bundle has only what it uses of them: see `pureConstants`. All other modules are
 * together with those that the same entry points need.
 *
 * CommonJS has the same modules. The archive puts files of one name side by side, and gzip finds a repeated text within 32 kB, so large modules
 * are divided: `maxSize` is that of the sources.
 */
const groups = [
  // The meter of language models needs no more.
  { name: 'util', minShareCount: most, test: /\/src\/util\//, priority: 1 },
  { name: 'core', minShareCount: most },
  // All of them together are for those who find algorithms by their names.
  {
    name: 'algorithms',
    minShareCount: 2,
    test: /\/src\/(?:algorithms\/(?!index|lua)[\w-]+\.ts|engine\/factories\.ts)$/,
  },
  // Leases are not used by those who only read counts, such as metrics.
  {
    name: 'guard',
    minShareCount: 2,
    test: /\/src\/stores\/(?:guard\/.*|lease|lease-spots|lease-sightings|wrappers)\.ts$/,
  },
  // With modules that ten entry points need, it would be larger than 32 kB.
  { name: 'limiter', minShareCount: 11, test: /\/src\/limiter\// },
  {
    name: 'testing',
    test: /\/src\/testing\//,
    includeDependenciesRecursively: false,
    minSize: 12_000,
    maxSize: 60_000,
  },
  { name: 'lua', test: /\.lua\?raw$/, entriesAware: true, maxSize: 50_000 },
]

/** Names a chunk after its group, or the folder that most of its modules come from: stack traces show it. */
function chunkName({ name, moduleIds }) {
  if (groups.some((group) => group.name === name)) return `chunks/${name}.js`
  const modules = new Map()
  for (const id of moduleIds) {
    const folder = /^(?:src|adapters)\/(.+)\//.exec(relative(root, id))?.[1] ?? 'vendor'
    modules.set(folder, (modules.get(folder) ?? 0) + 1)
  }
  const [[folder] = ['runtime']] = [...modules].toSorted(([, one], [, other]) => other - one)
  return `chunks/${folder.replaceAll('/', '-')}.js`
}

/** The bundler copies modules with `for … in`, which also finds properties that a program has added to `Object.prototype`. */
const ownNames = {
  name: 'own-names',
  renderChunk: (code) => code.replace('for (var name in all)', 'for (var name of Object.keys(all))'),
}

/**
 * Says of each constant that nothing is lost without it. The manifest says so of each module (`sideEffects`), and bundlers leave out whole files
 * by it. A chunk has many modules, of which a bundle needs some: of the others, a call and an object with a spread would stay.
 */
const pureConstants = {
  name: 'pure-constants',
  renderChunk: (code) =>
    code
      .replaceAll(/^(?:const|let|var) [\w$]+ = (?!require\()(?=(?:new )?[\w$]+\()/gm, '$&/* @__PURE__ */ ')
      .replaceAll(/^(const [\w$]+ = )(\{\n\t\.\.\.[^]*?\n\});$/gm, '$1/* @__PURE__ */ (() => ($2))();'),
}

/** Loads an optional package in the place of its `import()`. In a function of its own, it is not in the `try` that tells bundlers that it may be missing. */
const optionalPackages = {
  name: 'optional-packages',
  transform: (code) => code.replaceAll(/await import\(('[^.][^']*')\)/g, 'require($1)'),
}

/** Characters of a line of the built code, as far as it has a place to end. */
const LONGEST_LINE = 160

/** The names of the packages whose modules are in the build. */
const namesBuiltIn = new Set()

/** Builds into one folder, or the same into several. */
async function build(folders, input, output, plugins = [texts()], define = {}) {
  const bundle = await rolldown({
    cwd: root,
    input,
    plugins: [...plugins, ownNames, pureConstants],
    tsconfig: 'tsconfig.json',
    platform: 'neutral',
    // Groups without the modules that they import need it. `test/package/api.test.ts` checks that no entry point has other names.
    preserveEntrySignatures: 'allow-extension',
    checks: { bundlerTimings: false },
    transform: { define },
    resolve: { mainFields: ['module', 'main'], symlinks: false },
    external: (id) => !/^[./]/.test(id) && !BUILT_IN.some((name) => id === name || id.startsWith(`${name}/`)),
  })
  for (const dir of folders) {
    const { output: files } = await bundle.write({ dir, entryFileNames: '[name].js', ...output })
    for (const id of files.flatMap(({ moduleIds = [] }) => moduleIds)) {
      const [, name] = /[/\\]node_modules[/\\]((?:@[^/\\]+[/\\])?[^/\\]+)/.exec(id) ?? []
      if (name !== undefined) namesBuiltIn.add(name.replaceAll('\\', '/'))
    }
  }
  await bundle.close()
}

const commonjs = join(out, 'cjs')
const code = {
  chunkFileNames: chunkName,
  comments: { jsdoc: false },
  // Functions keep their names, so that a stack trace shows them. `compress` would join constants, and a bundle could not leave single ones out.
  minify: { compress: false, mangle: { toplevel: true, keepNames: true }, codegen: { removeWhitespace: true } },
  codeSplitting: { groups },
}
/** Both folders have the same types, in small files: see `groups`. Only those that each entry has are divided: others may import what a project does not have. */
const types = {
  chunkFileNames: ({ moduleIds }) => chunkName({ moduleIds }),
  codeSplitting: {
    groups: [
      {
        name: 'types.d',
        test: /\/src\/(?:engine|limiter|stores\/(?:store|lease-settings|guard|memory|deny-cache))/,
        maxSize: 8000,
      },
    ],
  },
}
rmSync(out, { recursive: true, force: true })
await Promise.all([
  build([out], inputs([...entries, ...Object.values(manifest.bin)]), { ...code, format: 'esm' }),
  // Jest cannot load a module with `import()`. A module of CommonJS knows its file, not its URL.
  build(
    [commonjs],
    inputs(entries),
    { ...code, format: 'cjs', dynamicImportInCjs: false },
    [texts(), optionalPackages],
    {
      'import.meta.url': '__filename',
    },
  ),
  build([out, commonjs], inputs(entries), types, [dts({ oxc: true, emitDtsOnly: true })]),
])
for (const name of readdirSync(out, { recursive: true })) if (name.endsWith('.js')) breakLines(join(out, name))
const builtIn = [...namesBuiltIn]
  .toSorted((a, b) => (a < b ? -1 : 1))
  .map((name) => {
    const folder = join(root, 'node_modules', name)
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each))
    return { name, version, license, text: readFileSync(join(folder, file), 'utf8').trim() }
  })
const licenses = builtIn.map(({ name, version, text }) => `${name} ${version}\n\n${text}\n`)
writeFileSync(join(out, 'licenses.txt'), `Licenses of the packages that are built in.\n\n${licenses.join('\n---\n\n')}`)
writeFileSync(join(out, 'sbom.json'), `${JSON.stringify(billOfMaterials(), undefined, 1)}\n`)
writeFileSync(join(commonjs, 'package.json'), '{ "type": "commonjs" }\n')

/** Breaks the lines of a file. Node prints the line of an error that nobody catches, before its message. */
function breakLines(file) {
  const text = readFileSync(file, 'utf8')
  let broken = ''
  let begin = 0
  let last = 0
  for (const place of [...placesIn(parseAst(text)), text.length].toSorted((a, b) => a - b)) {
    if (place - begin > LONGEST_LINE && last > begin) {
      broken += `${text.slice(begin, last)}\n`
      begin = last
    }
    last = place
  }
  writeFileSync(file, broken + text.slice(begin))
}

/** Returns where statements, members, properties, elements and arguments of a program begin: a line may end there. */
function placesIn(node) {
  const begins = (each) => (each?.type && each.type !== 'TemplateElement' ? [each.start, ...placesIn(each)] : [])
  return Object.entries(node).flatMap(([name, value]) => {
    // No line may end between `async` and the parameter of an arrow function.
    if (Array.isArray(value)) return name === 'params' ? value.flatMap(placesIn) : value.flatMap(begins)
    return value?.type ? placesIn(value) : []
  })
}

/**
 * Lists the packages that are built in, as CycloneDX 1.5: `npm audit` and `npm sbom` in a project of a user cannot see them.
 * https://cyclonedx.org/docs/1.5/json/
 */
function billOfMaterials() {
  const { packages } = JSON.parse(readFileSync(join(root, 'node_modules/.package-lock.json'), 'utf8'))
  const component = (type, { name, version, license }, more) => {
    const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`
    return { type, 'bom-ref': purl, name, version, purl, licenses: [{ license: { id: license } }], ...more }
  }
  const hashOf = (name) => {
    const [, content] = packages[`node_modules/${name}`].integrity.split('sha512-')
    return { alg: 'SHA-512', content: Buffer.from(content, 'base64').toString('hex') }
  }
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.5',
    version: 1,
    metadata: { component: component('library', manifest) },
    components: builtIn.map((each) => component('library', each, { hashes: [hashOf(each.name)] })),
  }
}
