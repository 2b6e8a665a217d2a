import { inFile } from './mutation.mjs'

const inPlayground = (file) => inFile(`docs/site/playground/${file}.ts`, { files: ['test/site/scenario.test.ts'] })
const simulate = inPlayground('simulate')
const forms = inPlayground('forms')
const traffic = inPlayground('traffic')
const compareFile = inPlayground('compare')
const share = inPlayground('share')

const migrating = (name) =>
  inFile(`docs/migrating/${name}.md`, { files: ['test/docs/migrating.test.ts'], name: `migrating/${name}` })
// The figures of size need the package as it is installed.
const comparison = inFile('docs/comparison.md', {
  files: ['test/docs/comparison.test.ts'],
  name: 'the comparison|of versions|of speed|any window',
})

const picture = (file) => inFile(`docs/plot/${file}`, { files: ['test/docs/pictures.test.ts'] })
const plots = inFile('bench/docs/plots.mjs', { files: ['test/docs/pictures.test.ts'] })
const links = inFile('docs/site/links.ts', { files: ['test/site/site.test.ts'], name: 'the built site' })

const home = (file) => inFile(`docs/site/${file}`, { files: ['test/site/site.test.ts'], name: 'in a browser' })
const menu = inFile('docs/site/.vitepress/config.ts', {
  files: ['test/site/site.test.ts'],
  name: 'on a desktop, light /docs/guides/express.html',
})
const replay = inFile('src/cli/replay/html.ts', { files: ['test/cli/replay-page.test.ts'] })
const release = inFile('build/release.mjs', { files: ['test/package/api.test.ts'] })
const api = inFile('docs/reference/api.md', { files: ['test/package/api.test.ts'] })

/** Small mistakes in the playground, the pictures, the site and the pages for users of other packages. */
export const site = [
  simulate('a clock that stops', 'now = START + at', 'now = START'),
  forms('a quote in a name that ends the text', "value.replaceAll(/['\\\\]/g, String.raw`\\$&`)", 'value'),
  traffic('more requests than the most', 'MOST_REQUESTS - others.length', 'Infinity'),
  forms('a text that becomes a number', 'Number(text) : text', 'Number(text) : Number(text)'),
  compareFile('a mistake next to no field', 'field: field?.name', 'field: undefined'),
  compareFile('limits that are wrong only together', 'simulate(limits, [0])\n', ''),
  migrating('express-rate-limit')('a success that is counted', "  count: 'failures',\n", ''),
  migrating('koa-ratelimit')(
    'a request less',
    "quota: 100, window: '1m' }),\n    message",
    "quota: 99, window: '1m' }),\n    message",
  ),
  migrating('rate-limiter-flexible')('a cost that is not migrated', '    cost: () => 2,\n', ''),
  migrating('nestjs-throttler')('one key for all handlers', 'keyer: keyers(byIP, byHandler),', 'keyer: byIP,'),
  migrating('fastify-rate-limit')(
    'a result that no app shows',
    '`ratelimit: "login";r=1;t=900`',
    '`ratelimit: "login";r=2;t=900`',
  ),
  comparison('a cell without evidence', '[yes][charges]', 'yes'),
  comparison(
    'a source of another version',
    'rate-limiter-flexible@11.4.0/index.js',
    'rate-limiter-flexible@11.3.0/index.js',
  ),
  comparison('a figure that was not measured', '[54,846][bench]', '[64,846][bench]'),
  comparison('an exactness that was not measured', '[19][bounds]', '[10][bounds]'),
  share('a link with a time after the end', 'time < Number(span) ?', 'time >= 0 ?'),
  picture('svg.mjs')('a picture without colours for dark pages', 'opening + style', 'opening'),
  picture('svg.mjs')('a picture that is too wide for a phone', 'WIDTH = 440', 'WIDTH = 760'),
  picture('panels.ts')('another time at the edge of a window', 'decide(limits, aroundAnEdge)', 'decide(limits)'),
  plots('a plot of other figures', "'Memory per key and limit'", "'Time per decision'"),
  plots('a plot that is too wide for a phone', 'WIDTH - 110', 'WIDTH + 110'),
  menu('two buttons for one group', `'aria-hidden="true"\\n'`, `'role="button"\\n'`),
  home('.vitepress/theme/style.css')('a button with too little contrast', '#4a64c0', '#5672cd'),
  home('.vitepress/theme/style.css')(
    'a focus that is hard to see',
    '\n:focus-visible {\n  outline: 2px solid',
    '\n:focus-visible {\n  outline: 1px solid',
  ),
  links('a heading of a table without a text', ".tag = 'td'", ".tag = 'th'"),
  replay('a page without landmarks', '<main>', '<div>'),
  release(
    'a version that is not in the lock file twice',
    '`"version": "${version}"`, 2)',
    '`"version": "${version}"`)',
  ),
  release('a version that goes back', 'a[i] > b[i]', 'true'),
  release('a patch that breaks programs', '${minor + 1}.0', '${minor}.1'),
  api('a name that is not listed', '`createLimiter`, ', ''),
  links('links to the README that lead home', '`/start#${anchor}`', '`/#${anchor}`'),
]
