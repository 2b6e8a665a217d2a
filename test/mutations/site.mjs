import { inFile } from './mutation.mjs'

const inPlayground = (file) => inFile(`site/playground/${file}.ts`, { files: ['test/site/scenario.test.ts'] })
const simulate = inPlayground('simulate')
const forms = inPlayground('forms')
const traffic = inPlayground('traffic')
const share = inPlayground('share')

/** Small mistakes in the playground. */
export const site = [
  simulate('a clock that stops', 'now = START + at', 'now = START'),
  forms('a quote in a name that ends the text', "value.replaceAll(/['\\\\]/g, String.raw`\\$&`)", 'value'),
  traffic('more requests than the most', 'MOST_REQUESTS - others.length', 'Infinity'),
  share('a link with a time after the end', 'time < Number(span) ?', 'time >= 0 ?'),
]
