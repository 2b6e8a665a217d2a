// Run it: npm run build && npm run build:examples && node dist/examples/showcase.js
//
// Starts the example servers of three frameworks and one whose limits change, sends a burst to each, and prints the responses.
// With `--once` it exits then; otherwise the servers run until Ctrl-C.
import { styleText } from 'node:util'
import { Worker } from 'node:worker_threads'
import { type Answer, visit } from './visits.ts'

/** The status of a request that changes the rules and is not limited. */
const CHANGED = 204

/** Requests that are sent one after another, and the expected statuses. */
interface Burst {
  readonly lines: readonly string[]
  readonly statuses: readonly number[]
}

const PER_APP: readonly Burst[] = [
  { lines: Array<string>(6).fill('GET /'), statuses: [200, 200, 200, 200, 200, 429] },
  { lines: Array<string>(4).fill('POST /login'), statuses: [200, 200, 200, 429] },
]

const SERVERS = [
  { name: 'Express', example: 'express', bursts: PER_APP },
  { name: 'Fastify', example: 'fastify', bursts: PER_APP },
  { name: 'Koa', example: 'koa', bursts: PER_APP },
  {
    name: 'Rules in a file, tightened and loosened',
    example: 'rules',
    bursts: [
      {
        lines: [...many(2), 'POST /tight', ...many(3), 'POST /loose', ...many(2)],
        statuses: [200, 200, CHANGED, 200, 429, 429, CHANGED, 200, 200],
      },
    ],
  },
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
  readonly bursts: readonly Burst[]
  readonly url: string
  readonly worker: Worker
}

/** Starts an example in a worker thread, on a free port. */
function start({ name, example, bursts }: (typeof SERVERS)[number]): Promise<Running> {
  const env = { ...process.env, PORT: '0' }
  const worker = new Worker(new URL(`${example}.js`, import.meta.url), { argv: [], env, stdout: true })
  return new Promise((resolve, reject) => {
    worker.once('error', reject)
    worker.stdout.setEncoding('utf8').on('data', (text: string) => {
      const url = /^listening on (\S+)$/m.exec(text)?.[1]
      if (url !== undefined) resolve({ name, bursts, url, worker })
    })
  })
}

async function send(url: string, { lines }: Burst): Promise<Answer[]> {
  const answers: Answer[] = []
  for (const line of lines) answers.push(await visit(url, line))
  return answers
}

function many(count: number): readonly string[] {
  return Array<string>(count).fill('GET /notes')
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
    console.log(styled(answer.status === 429 ? 'red' : 'green', text))
  }
  const policies = new Set(answers.flatMap(({ policy }) => policy ?? []))
  console.log(styled('dim', ` RateLimit-Policy: ${[...policies].join(' → ')}`))
}

/** True if requests were admitted and denied as expected, limited ones with headers, and denied ones with a retry time. */
function sound(answers: readonly Answer[], statuses: readonly number[]): boolean {
  return answers.every(({ status, retryAfter, rateLimit, policy }, i) => {
    const waits = Number(retryAfter) >= 1
    const isLimited = rateLimit !== null && policy !== null
    return status === statuses[i] && waits === (status === 429) && isLimited === (status !== CHANGED)
  })
}

const servers = await Promise.all(SERVERS.map(start))

for (const { name, url, bursts } of servers) {
  console.log(`\n ${styled('bold', name)} at ${url}\n\n${HEAD}`)
  for (const burst of bursts) {
    const answers = await send(url, burst)
    show(answers)
    if (sound(answers, burst.statuses)) continue
    const expected = burst.lines.map((line, i) => `${line}: ${burst.statuses[i]}`)
    console.error(styled('red', `\n ${name} should have answered ${expected.join(', ')}`))
    process.exitCode = 1
  }
}

async function end(): Promise<void> {
  await Promise.all(servers.map(({ worker }) => worker.terminate()))
}

if (process.argv.includes('--once')) await end()
else {
  console.log('\n The servers go on. Ask them from another terminal, a few times in a row:\n')
  for (const { url, bursts } of servers) {
    const lines = new Set(bursts.flatMap(({ lines }) => lines))
    for (const line of lines) console.log(`   curl -i -X ${line.replace(' ', ` ${url}`)}`)
  }
  console.log('\n Ctrl-C ends them.\n')
  process.once('SIGINT', () => void end())
  process.once('SIGTERM', () => void end())
}
