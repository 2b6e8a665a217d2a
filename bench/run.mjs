// `npm run bench`: sees that everything is there, then measures. What it takes is told by `npm run bench -- --help`.
import { readOptions } from './lib/options.mjs'
import { prepare } from './lib/prepare.mjs'

const options = readOptions(process.argv.slice(2))
if (options !== undefined) {
  prepare()
  const { bench } = await import('./bench.mjs')
  process.exitCode = await bench(options)
}
