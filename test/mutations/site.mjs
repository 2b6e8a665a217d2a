import { inFile } from './mutation.mjs'

const inPlayground = (file) => inFile(`docs/site/playground/${file}.ts`, { files: ['test/site/scenario.test.ts'] })
const simulate = inPlayground('simulate')
const forms = inPlayground('forms')
const traffic = inPlayground('traffic')
const compareFile = inPlayground('compare')
const share = inPlayground('share')

const picture = (file) => inFile(`docs/plot/${file}.ts`, { files: ['test/docs/algorithms.test.ts'] })
const links = inFile('docs/site/links.ts', { files: ['test/site/site.test.ts'], name: 'leads to' })

/** Small mistakes in the playground, the pictures and the site. */
export const site = [
  simulate('a clock that stops', 'now = START + at', 'now = START'),
  forms('a quote in a name that ends the text', "value.replaceAll(/['\\\\]/g, String.raw`\\$&`)", 'value'),
  traffic('more requests than the most', 'MOST_REQUESTS - others.length', 'Infinity'),
  forms('a text that becomes a number', 'Number(text) : text', 'Number(text) : Number(text)'),
  compareFile('a mistake next to no field', 'field: field?.name', 'field: undefined'),
  compareFile('limits that are wrong only together', 'simulate(limits, [0])\n', ''),
  share('a link with a time after the end', 'time < Number(span) ?', 'time >= 0 ?'),
  picture('svg')('a picture without colours for dark pages', 'opening + style', 'opening'),
  picture('svg')('a picture that is too wide for a phone', 'WIDTH = 440', 'WIDTH = 760'),
  picture('panels')('another time at the edge of a window', 'decide(limits, aroundAnEdge)', 'decide(limits)'),
  links('links to the README that lead home', '`/start#${anchor}`', '`/#${anchor}`'),
]
