// Nanoseconds per request under documents of rules: one policy, a thousand of them, and ten thousand overrides.
import { entry } from '../lib/entry.mjs'
import { finish, job } from '../lib/worker.mjs'
import { SAME_KEY } from './keys.mjs'
import { timed } from './loop.mjs'

const { root, ms } = job
const sluice = await entry(root, 'sluice')
const { createRules } = await entry(root, 'sluice/rules')

const limits = [{ quota: 1_000_000_000, window: '1d' }]
const own = {
  name: 'own',
  match: { method: 'POST', path: '/orders/:id', attributes: { plan: 'free' } },
  key: 'attribute:tenant',
  limits,
}
const overrides = Array.from({ length: 10_000 }, (_, i) => ({ key: `tenant-${i}`, limits: [{ quota: 900_000_000 }] }))

/** Half of the policies have a path. The others differ in an attribute, a header or a network. None but `own` matches. */
const kinds = [
  (i) => ({ path: `/service-${i}/*`, method: 'GET' }),
  (i) => ({ attributes: { plan: 'free', region: `region-${i}` } }),
  (i) => ({ path: `/api/v${i}/items/:id` }),
  (i) => ({ header: { 'x-api-key': `key-${i}` } }),
  (i) => ({ path: '/orders/*', attributes: { tenant: [`other-${i}`, `another-${i}`] } }),
  (i) => ({ ip: `10.${i >> 8}.${i & 255}.0/24` }),
]
const others = Array.from({ length: 999 }, (_, i) => {
  return { name: `policy-${i}`, match: kinds[i % kinds.length](i), key: 'attribute:tenant', limits }
})

const request = {
  method: 'POST',
  path: '/orders/42',
  ip: '203.0.113.7',
  headers: { 'x-api-key': 'secret' },
  attributes: { plan: 'free', tenant: 'tenant-7', region: 'eu' },
}

function subject(policies, given = request) {
  const limiter = sluice.createLimiter({ rules: createRules({ policies }), store: sluice.memoryStore() })
  return {
    sync: true,
    decide: () => limiter.consume(given),
    order: given === request ? SAME_KEY : SAME_KEY.slice(0, 20),
  }
}

/** A path that is expensive to match, under policies that match it and count it by path. */
function hostile(text) {
  const paths = ['/*', '/orders/:id', '/:a/:b/*']
  const policies = paths.map((path, i) => ({ name: `path-${i}`, match: { path }, key: 'path', limits }))
  return subject(policies, { ...request, path: `/${text.repeat(16_000 / text.length)}` })
}

const subjects = {
  'one policy': subject([own]),
  'a thousand policies': subject([...others, own]),
  'ten thousand overrides': subject([{ ...own, overrides }]),
  '16 kB of slashes': hostile('/'),
  '16 kB of percent signs': hostile('/%'),
  '16 kB of invalid UTF-8': hostile('/%ff'),
  '16 kB of dots': hostile('/a/..'),
  '16 kB of semicolons': hostile('/;'),
  '16 kB of backslashes': hostile('/\\'),
}

const figures = {}
for (const each of Object.values(subjects)) await timed(each, ['hot'], each.order, { ms: ms / 2 })
for (const [name, each] of Object.entries(subjects)) figures[name] = await timed(each, ['hot'], each.order, { ms })
finish(figures)
