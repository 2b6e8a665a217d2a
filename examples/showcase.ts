// Starts the example servers of three frameworks, sends a burst to each, and prints the responses.
// With `--once` it exits then; otherwise the servers run until Ctrl-C.
import { styleText } from 'node:util'
import { Worker } from 'node:worker_threads'
import { type Answer, visit } from './visits.ts'

const FRAMEWORKS = [
  { name: 'Express', example: 'express' },
  { name: 'Fastify', example: 'fastify' },
  { name: 'Koa', example: 'koa' },
]

const BURSTS = [
  { line: 'GET /', statuses: [200, 200, 200, 200, 200, 429] },
  { line: 'POST /login', statuses: [200, 200, 200, 429] },
]

const COLUMNS = [
  { title: 'request', width: 11, cell: ({ line }: Answer) => line },
  { title: 'status', width: -6, cell: ({ status }: Answer) => String(status) },
  { title: 'remaining', width: -9, cell: remaining },
  { title: 'Retry-After', width: -11, cell: ({ retryAfter }: Answer) => retryAfter ?? '–' },
  { title: 'RateLimit', width: 34, cell: ({ rateLimit }: Answer) => rateLimit ?? '–' },
]

interface Running {
  readonly name: string
  readonly url: string
  readonly worker: Worker
}

/** Starts an example in a worker thread, on a free port. */
function start({ name, example }: { readonly name: string; readonly example: string }): Promise<Running> {
  const env = { ...process.env, PORT: '0' }
  const worker = new Worker(new URL(`${example}.js`, import.meta.url), { argv: [], env, stdout: true })
  return new Promise((resolve, reject) => {
    worker.once('error', reject)
    worker.stdout.setEncoding('utf8').on('data', (text: string) => {
      const url = /^listening on (\S+)$/m.exec(text)?.[1]
      if (url !== undefined) resolve({ name, url, worker })
    })
  })
}

async function burst(url: string, line: string, times: number): Promise<Answer[]> {
  const answers: Answer[] = []
  while (answers.length < times) answers.push(await visit(url, line))
  return answers
}

/** Returns the smallest `r` of the limits. */
function remaining({ rateLimit }: Answer): string {
  const left = [...(rateLimit ?? '').matchAll(/;r=(\d+)/g)].map(([, digits]) => Number(digits))
  return left.length === 0 ? '–' : String(Math.min(...left))
}

const colourful = process.stdout.isTTY && process.stdout.hasColors()

function styled(style: 'bold' | 'dim' | 'green' | 'red', text: string): string {
  return colourful ? styleText(style, text) : text
}

/** Joins cells to a row. A negative width aligns to the right. */
function row(cells: readonly string[]): string {
  const aligned = cells.map((cell, i) => {
    const { width } = COLUMNS[i]!
    return width < 0 ? cell.padStart(-width) : cell.padEnd(width)
  })
  return ` ${aligned.join('  ').trimEnd()}`
}

const HEAD = row(COLUMNS.map(({ title }) => title))
const RULE = ` ${COLUMNS.map(({ width }) => '─'.repeat(Math.abs(width))).join('──')}`

function show(answers: readonly Answer[]): void {
  console.log(styled('dim', RULE))
  for (const answer of answers) {
    const text = row(COLUMNS.map(({ cell }) => cell(answer)))
    console.log(styled(answer.status === 200 ? 'green' : 'red', text))
  }
  console.log(styled('dim', ` RateLimit-Policy: ${answers[0]?.policy}`))
}

/** True if requests were admitted and denied as expected, all with limit headers, and the denied ones with a retry time. */
function sound(answers: readonly Answer[], statuses: readonly number[]): boolean {
  return answers.every(({ status, retryAfter, rateLimit, policy }, i) => {
    const waits = Number(retryAfter) >= 1
    return status === statuses[i] && waits === (status === 429) && rateLimit !== null && policy !== null
  })
}

const servers = await Promise.all(FRAMEWORKS.map(start))

for (const { name, url } of servers) {
  console.log(`\n ${styled('bold', name)} at ${url}\n\n${HEAD}`)
  for (const { line, statuses } of BURSTS) {
    const answers = await burst(url, line, statuses.length)
    show(answers)
    if (sound(answers, statuses)) continue
    console.error(styled('red', `\n ${name} should have answered ${line} with ${statuses.join(', ')}`))
    process.exitCode = 1
  }
}

async function end(): Promise<void> {
  await Promise.all(servers.map(({ worker }) => worker.terminate()))
}

if (process.argv.includes('--once')) await end()
else {
  console.log('\n The servers go on. Ask them from another terminal, a few times in a row:\n')
  for (const { url } of servers) console.log(`   curl -i ${url}/`)
  for (const { url } of servers) console.log(`   curl -i -X POST ${url}/login`)
  console.log('\n Ctrl-C ends them.\n')
  process.once('SIGINT', () => void end())
  process.once('SIGTERM', () => void end())
}
