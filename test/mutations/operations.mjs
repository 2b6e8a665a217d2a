import { inFile } from './mutation.mjs'

const dashboardTests = { files: ['test/dashboard/dashboard.test.ts'] }
const inDashboard = (file) => inFile(`src/dashboard/${file}.ts`, dashboardTests)
const access = inDashboard('routes')
const board = inDashboard('board')
const fleet = inDashboard('fleet')
const summaries = inFile('src/dashboard/summary.ts', { files: ['test/dashboard/summary.test.ts'] })
const sums = inFile('src/dashboard/sums.ts', { files: ['test/dashboard/sums.test.ts'] })
const texts = inFile('src/stores/texts.ts', { files: ['test/stores/texts.test.ts'] })
const live = inDashboard('live')
const counters = inFile('src/dashboard/counters.ts', { files: ['test/dashboard/counters.test.ts'] })
const elements = inFile('src/dashboard/page/elements.ts', {
  files: ['test/dashboard/page.test.ts'],
  name: 'shows keys as text',
})
const onPage = (file, name) => inFile(`src/dashboard/page/${file}`, { files: ['test/dashboard/page.test.ts'], name })
const report = inFile('src/cli/replay/html.ts', { files: ['test/cli/replay-page.test.ts'] })

const prometheusTests = { files: ['test/metrics/prometheus.test.ts'] }
const series = inFile('src/metrics/recorder.ts', prometheusTests)
const outcome = inFile('src/limiter/decision.ts', prometheusTests)
const instruments = inFile('src/metrics/instruments.ts', prometheusTests)
const waiter = inFile('src/limiter/queue/wait-queue.ts', prometheusTests)
const spaceSaving = inFile('src/metrics/top-denied.ts', { files: ['test/metrics/space-saving.test.ts'] })

const build = inFile('build/build.mjs', { files: ['test/package/packaging.test.ts'], name: 'the tarball' })

const gateway = inFile('examples/llm-gateway.ts', {
  files: ['test/e2e/llm-gateway.test.ts', 'test/e2e/llm-cut-streams.test.ts'],
})

const meter = inFile('src/llm/meter.ts', { files: ['test/llm/meter.test.ts'] })
const llmTokens = inFile('src/llm/tokens.ts', { files: ['test/llm/tokens.test.ts'] })
const llmUsage = inFile('src/llm/usage.ts', { files: ['test/llm/meter.test.ts', 'test/llm/tokens.test.ts'] })

/** Small mistakes in metrics, in the dashboard, in the build and in the meter of language models. */
export const operations = [
  gateway('never settles', 'settleWith: (request) => settled(calls.get(request)!),', ''),
  gateway('charges an answer that failed', "if (state === 'failed' || state === 'waiting') return () => 0", ''),
  gateway('charges the tokens of a cached answer', "const tokens = state === 'free' ? 0 : ", 'const tokens = '),
  gateway('shows one customer the answer of another', 'JSON.stringify([call.customer, ', 'JSON.stringify(['),
  gateway('lets the model work when the client has gone', "response.on('close', () => gone.abort())", ''),
  gateway('reserves nothing for the answer', ' + answerTokens(body, MOST_TOKENS)', ''),
  gateway('asks a model that wants no requests', 'limiter.pause(model, pauseOf(answer))', '{}'),
  gateway('sends events that the client did not ask for', 'if (isData && !api.isAsked(data, call.body)) continue', ''),
  gateway('takes several choices for one', "if (n !== 1) return 'expected one choice'", ''),
  meter(
    'charges less than the reservation',
    'Math.max(left, reported.output, seen)',
    'Math.max(reported.output, seen)',
  ),
  meter('charges nothing of what was seen', 'this.#seen += Math.max(1, tokens)', 'this.#seen += 0'),
  meter(
    'counts the first choice only',
    'for (const each of Array.isArray(choices) ? (choices as unknown[]) : [])',
    'for (const each of Array.isArray(choices) ? (choices as unknown[]).slice(0, 1) : [])',
  ),
  meter('keeps a usage that came too early', '    this.#isReported = false\n', ''),
  meter('forgets what a stream that is cut off has written to a cache', '...reported, input', '...usageOf({}), input'),
  meter('holds lines of any length', 'size <= LONGEST', 'size <= Infinity'),
  meter('holds any number of lines', 'this.#lines++', ''),
  llmTokens('a maximum as a text is none', "typeof value === 'string' ? Number(value) : value", 'value'),
  llmTokens('a maximum that is not clear is none', 'if (Number.isNaN(number)) return MOST', ''),
  llmUsage('takes the first number of Anthropic for the last', "if (type === 'message_start') return false", ''),
  llmUsage(
    'leaves out what Anthropic has read from a cache',
    " + of('cache_read_input_tokens') + written",
    ' + written',
  ),
  llmUsage('leaves out what OpenAI has written to a cache', 'reported.cache_write_tokens ?? ', ''),
  llmUsage('leaves out the steps that Anthropic does not count', 'sum + (countOf(step) ?? 0)', 'sum'),
  llmUsage('rounds a price down', 'Math.ceil(parts / PARTS)', 'Math.floor(parts / PARTS)'),
  board('takes a store for stores by their names', "!('run' in stores)", 'true'),
  build('a library that is neither built in nor installed', "'cluster-key-slot', ", ''),
  build('no licenses of the libraries', 'licenses.join(', '[].join('),
  access('takes any value of authorize for a yes', 'return answer === true', 'return Boolean(answer)'),
  access('trusts other hosts of the same site', "return site === 'same-origin'", "return site !== 'cross-site'"),
  access('trusts every origin that is a URL', 'hostOf(origin) === host', 'hostOf(origin) !== undefined'),
  access(
    'trusts an origin without a host in a request without one',
    'new URL(origin).host : null',
    'new URL(origin).host : undefined',
  ),
  access('allows scripts in the page', "script-src 'self'; ", "script-src 'self' 'unsafe-inline'; "),
  board(
    'sends the state to visitors that are not authorized',
    'if (await isAuthorized(request))',
    "if (path === '/state' || (await isAuthorized(request)))",
  ),
  live('writes to the store although it may not', 'isOn ? keys.stores : []', 'keys.stores'),
  access(
    'lets a page of another site reset keys',
    '!files.has(path) && !isSameSite',
    "!files.has(path) && path !== '/reset' && !isSameSite",
  ),
  access(
    'resets with GET',
    "if (request.method !== 'POST')",
    "if (request.method !== 'POST' && request.method !== 'GET')",
  ),
  fleet('tells nobody that somebody looks', "await texts.keep(LOOK, LOOK_LASTS, '')", 'await Promise.resolve()'),
  fleet('stays in the list when it is closed', "this.#texts?.keep(this.id, 0, '')", 'undefined'),
  fleet('hides that the others are not known', 'this.#failure = messageOf(error)', 'void error'),
  fleet('shows all processes that there are', 'kept.slice(0, MOST_PROCESSES)', 'kept.slice()'),
  summaries('leaves out further limits', ', ...others(limits.slice(kept.length))', ''),
  summaries('writes all keys', 'fitting(denied.keys, PARTS.keys)', 'denied.keys'),
  summaries('takes any count', '(value as number) >= 0', 'true'),
  summaries('takes lists of any length', 'value.length <= most &&', ''),
  sums(
    'adds the counts of a process as if it had just written them',
    'addTo(sum.counts[kind]!, list, shift)',
    'addTo(sum.counts[kind]!, list, 0)',
  ),
  sums('takes the clocks of other processes for its own', 'return now - age - (summary.now - time)', 'return time'),
  sums('counts what a process denied that is lost', 'if (isLost(member)) return [0, 0, 0]', ''),
  sums('forgets that a key may be missing in a list', 'count: missing, error: missing', 'count: 0, error: 0'),
  texts('reads what has ended', '|| Number(end) <= now', ''),
  counters('a window of slots', "countsSlots(limit) ? 'at the same time' :", ''),
  series('forgets limits of slots while none is held', 'this.#ofSlots.add(known.counts)', 'this.#ofSlots'),
  series('measures requests that did not wait', 'if (waited > 0) whole', 'whole'),
  waiter('does not measure the first in a line', 'if (!isNew) waiter.waits()', 'void isNew'),
  waiter('does not measure a delay', '    this.waits()\n    this.#ends', '    this.#ends'),
  counters(
    'counts a request apart from the metrics',
    'this.#all.add(outcomeOfRequest(decision), bucket)',
    'this.#all.add(decision.allowed ? 0 : 1, bucket)',
  ),
  counters('gives every limit a series', 'this.#limits.size >= MOST_LIMITS', 'this.#limits.size >= Infinity'),
  elements('writes keys as HTML', 'made.textContent = showInvisible(text)', 'made.innerHTML = showInvisible(text)'),
  inFile('src/util/invisible.ts', { files: ['test/util/invisible.test.ts'] })(
    'shows characters that change the direction of text',
    '\\p{Cf}',
    '',
  ),
  inFile('src/util/warn.ts', { files: ['test/util/errors.test.ts'] })(
    'lets a client write to the terminal of a warning',
    "showInvisible(reason, '\\n')",
    'reason',
  ),
  onPage('main.ts', 'outage first')('is live during an outage', "problem === '' ? 'Live' : problem", "'Live'"),
  onPage('tables.ts', 'outage first')(
    'shows no problem first',
    '...lost.map((each) => outageText(each, state, all)),',
    '',
  ),
  onPage('main.ts', 'one figure')('names no limit that denies', "names === '' ? 'No limit", "true ? 'No limit"),
  onPage('model.ts', 'since its start')(
    'shows ten empty minutes after the start',
    'Math.max(60 / SPAN, countedBuckets(state))',
    'BUCKETS',
  ),
  onPage('plot.ts', 'axis with units')(
    'has another scale than its axis',
    '(each / top) * HEIGHT',
    '(each / 2) * HEIGHT',
  ),
  onPage('style.css', 'readable on a phone in light')(
    'breaks or cuts headers on a phone',
    '@media (max-width: 40rem)',
    '@media (max-width: 4rem)',
  ),
  live('does not count requests that no policy matches', 'unmatchedRequests.subscribe(countUnmatched)', ''),
  build('code in one line', 'place - begin > LONGEST_LINE && last > begin', 'false'),
  counters('describes the first limit forever', 'this.#words.delete(words)\n', 'if (this.#words.size > 0) return\n'),
  report('leaves quotation marks in attributes', '[&<>"\']', "[&<>']"),
  series('has one pair too many', 'this.#count++ < this.#most', 'this.#count++ <= this.#most'),
  series('names further limits', ': this.ofLimit(OTHER, OTHER)', ': new Counts(limiter, limit)'),
  series('counts for the stack that decided first', 'if (known.limiter === limiter) whole', 'whole'),
  series(
    'counts a request once for each limit',
    'known.counts.outcomes[outcomeOfLimit(status)]!++',
    'known.counts.outcomes[outcomeOfLimit(status)]!++\n      known.whole.outcomes[outcomeOfLimit(status)]!++',
  ),
  outcome('counts denied requests as near the limit', 'allowed && decision.allowed && ', 'allowed && '),
  outcome('counts a denial in shadow as denied', 'limit.shadow === true ? SHADOW_DENIED : DENIED', 'DENIED'),
  outcome('counts a denied request as denied in shadow', 'if (!allowed) return DENIED\n', ''),
  instruments(
    'adds the requests to the decisions',
    'recorder.limits().flatMap(samplesOfOutcomes)',
    '[...recorder.limits(), ...recorder.limiters()].flatMap(samplesOfOutcomes)',
  ),
  series('puts a time of its upper bound into the next bucket', 'ms > BOUNDS[at]!', 'ms >= BOUNDS[at]!'),
  spaceSaving('forgets the error of a counter that was dropped', 'error: this.least }', 'error: 0 }'),
]
