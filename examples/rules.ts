// Run it: npm run build && npm run build:examples && node dist/examples/rules.js
// With Node 22.18 or newer also: npm run build && node examples/rules.ts
//
// Limits in a file: an operator tightens and loosens them while the service runs, and no usage is lost.
import { once } from 'node:events'
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import express from 'express'
import { rateLimit } from 'sluice/express'
import { rulesFromFile } from 'sluice/rules'
import { serve } from './visits.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-example-'))
const file = join(folder, 'rules.yaml')

/** Writes another file and renames it, so that the watch never reads half of it. */
function write(quota: number): void {
  writeFileSync(
    `${file}.new`,
    `# What a client may do.
policies:
  - name: notes
    match: { path: /notes }
    key: ip
    limits: [{ algorithm: fixedWindow, quota: ${quota}, window: 1h }]
otherwise: allow
`,
  )
  renameSync(`${file}.new`, file)
}

write(5)
const rules = await rulesFromFile(file)

const app = express()
app.use(rateLimit({ rules }))
app.get('/notes', (request, response) => {
  response.send(`version ${rules.current.version}, ${request.rateLimit?.remaining} left`)
})

/** What an operator does in an editor. */
async function change(quota: number): Promise<void> {
  const changed = once(rules, 'change')
  write(quota)
  await changed
}
app.post('/tight', async (_request, response) => {
  await change(3)
  response.sendStatus(204)
})
app.post('/loose', async (_request, response) => {
  await change(9)
  response.sendStatus(204)
})

const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1')
server.once('close', () => rmSync(folder, { recursive: true, force: true }))
const visits = ['GET /notes', 'GET /notes', 'POST /tight', 'GET /notes', 'GET /notes', 'POST /loose', 'GET /notes']
await serve(server, visits)
