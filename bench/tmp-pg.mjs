import pg from '../node_modules/pg/lib/index.js'
import { RateLimiterPostgres } from 'rate-limiter-flexible'
import { createLimiter, gcra } from '../dist/src/index.js'
import { postgresStore, postgresTable } from '../dist/src/stores/postgres.js'
const url = process.argv[2]
const pool = new pg.Pool({ connectionString: url, max: 10 })
await pool.query(postgresTable())
await pool.query('CREATE TABLE IF NOT EXISTS floor (key varchar(255) PRIMARY KEY, points integer, expire bigint)')
const rlf = await new Promise((res, rej) => { const l = new RateLimiterPostgres({ storeClient: pool, points: 1e9, duration: 3600, tableName: 'rlf', tableCreated: false, clearExpiredByTimeout: false }, (e) => e ? rej(e) : res(l)) })
const lim = createLimiter({ keyer: (k) => k, limits: gcra({ quota: 1000, window: '1d', burst: 20000000 }), store: postgresStore(pool, { timeout: '20s' }) })
const subjects = {
  sluice: (k) => lim.consume(k),
  rlf: (k) => rlf.consume(k),
  floor: (k) => pool.query({ name: 'floor', text: 'INSERT INTO floor VALUES ($1, 1, 1) ON CONFLICT (key) DO UPDATE SET points = floor.points + 1 RETURNING points', values: [k] }),
}
async function rate(f, inflight, keys, ms) {
  const end = performance.now() + ms; let n = 0; const t = performance.now()
  await Promise.all(Array.from({ length: inflight }, async () => { while (performance.now() < end) { await f('user-' + Math.floor(Math.random() * keys)); n++ } }))
  return n * 1000 / (performance.now() - t)
}
for (const s in subjects) await rate(subjects[s], 128, 10000, 1500)
for (const keys of [10000, 1]) for (const inflight of [1, 8, 128, 1000]) {
  const out = {}
  for (let r = 0; r < 3; r++) for (const s in subjects) (out[s] ??= []).push(await rate(subjects[s], inflight, keys, 500))
  const med = (a) => a.sort((x, y) => x - y)[a.length >> 1]
  const m = Object.fromEntries(Object.entries(out).map(([k, v]) => [k, Math.round(med(v))]))
  console.log(keys, inflight, m, (m.sluice / m.rlf).toFixed(2), (m.sluice/m.floor).toFixed(2))
}
await pool.end(); process.exit(0)
