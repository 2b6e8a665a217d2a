import { inFile } from './mutation.mjs'

const everywhere = ['test/adapters/adapters.test.ts', 'test/http/behaviours.test.ts']
const inTests = (file, ...files) => inFile(file, { files })

const requestLimiter = inTests(
  'src/http/request-limiter.ts',
  ...everywhere,
  'test/adapters/express',
  'test/adapters/koa',
)
const hold = inFile('src/http/request-limiter.ts', { files: everywhere, name: 'a delay' })
const passes = inTests('src/http/headers/stacked.ts', ...everywhere)
const stackedInStacked = inTests('src/http/headers/stacked.ts', 'test/http/headers/stacked.test.ts')
const history = inTests('src/http/headers/stacked.ts', 'test/http/headers/stacked.test.ts', 'test/http/history.test.ts')
const historyInCounted = inTests(
  'src/http/counted.ts',
  'test/http/headers/stacked.test.ts',
  'test/http/history.test.ts',
)
const settlement = inFile('src/http/settlement.ts', { files: everywhere, name: 'a refund or settlement' })
const reset = inFile('src/http/settlement.ts', { files: everywhere, name: 'a reset' })
const body = inFile('src/http/request-limiter.ts', { files: everywhere, name: 'a denial' })
const networks = inFile('src/http/keys/networks.ts', { files: ['test/http/keys/allowed.test.ts'] })
const denial = inTests('src/http/denial.ts', 'test/http/denial.test.ts')
const durations = inTests('src/util/duration.ts', 'test/http/denial.test.ts')
const accept = inTests('src/http/denial.ts', 'test/http/headers/accept.test.ts')
const retryAfterInRetry = inTests('src/http/headers/retry-after.ts', 'test/http/headers/retry-after.test.ts')
const headers = ['test/http/headers']
const standard = inTests('src/http/headers/standard.ts', ...headers)
const seconds = inTests('src/util/seconds.ts', ...headers)
const valuesInValues = inTests('src/http/headers/values.ts', ...headers)
const lag = inTests('src/algorithms/token-bucket-initial.ts', 'test/http/headers/values.test.ts')
const styles = inTests('src/http/headers/styles.ts', ...headers)
const modelsInRetry = inTests('src/http/headers/retry-after.ts', ...headers)
const binding = inTests('src/http/headers/binding.ts', ...headers)
const modelsInPerLimit = inTests('src/http/headers/per-limit.ts', ...headers)
const names = inTests('src/http/headers/types.ts', ...headers)
const headerName = inTests('src/util/validate.ts', 'test/http/headers/names.test.ts')
const errors = inTests('src/util/errors.ts', 'test/util/errors.test.ts')
const address = inTests('src/http/keys/address.ts', 'test/http/keys/address.test.ts')
const ip = inTests('src/http/keys/ip.ts', 'test/http/keys/ip.test.ts')
const setAddress = (file, test) => inTests(file, `test/adapters/${test}/keyers.test.ts`)
const parentheses = (file) => inTests(file, 'test/adapters/mistakes.test.ts')
const closedEarly = inFile('src/util/closed.ts', { files: everywhere, name: 'a delay' })
const closed = inTests('src/util/closed.ts', 'test/http/response/node-end.test.ts')
const nodeEnd = inTests('src/http/response/node.ts', 'test/http/response/node-end.test.ts')
const webEnd = inTests('src/http/response/web.ts', 'test/adapters/fetch')
const next = inTests('adapters/fetch/next.ts', 'test/adapters/fetch/next.test.ts')
const awaited = inTests('adapters/fetch/index.ts', 'test/adapters/fetch/next.test.ts')
const webResponse = inTests('src/http/response/web.ts', 'test/adapters/fetch', 'test/adapters/hono')
const express = inTests('adapters/express/express.ts', 'test/adapters/express/keyers.test.ts')
const koa = inTests('adapters/koa/index.ts', 'test/adapters/koa/error-headers.test.ts')
const koaKeyers = inTests('adapters/koa/index.ts', 'test/adapters/koa/keyers.test.ts')
const scope = inTests('adapters/fastify/scope.ts', 'test/adapters/fastify')
const ownRoutes = inTests('adapters/fastify/routes.ts', 'test/adapters/fastify/own-routes.test.ts')
const earlyRoutes = inTests('adapters/fastify/scope.ts', 'test/adapters/fastify/early-routes.test.ts')
const fastify = inTests('adapters/fastify/index.ts', 'test/adapters/fastify/scope.test.ts')
const lastHooks = inTests('adapters/fastify/scope.ts', 'test/adapters/fastify/pre-handler.test.ts')
const redirects = ['test/adapters/on-denied.test.ts']
const head = inTests('adapters/fastify/keyers.ts', ...redirects)
const started = inTests('src/http/response/on-denied.ts', ...redirects)
const koaStatus = inTests('adapters/koa/index.ts', ...redirects)
const honoStatus = inTests('adapters/hono/index.ts', ...redirects)
const onError = inFile('adapters/node/index.ts', { files: ['test/adapters/user-functions.test.ts'], name: 'onError' })
const userAddress = inFile('src/http/keys/address.ts', {
  files: ['test/adapters/user-functions.test.ts'],
  name: 'address of',
})
const expressErrors = inTests('adapters/express/express.ts', 'test/adapters/unread-body.test.ts')
const uploads = (text) => inFile('src/http/response/unread-body.ts', { files: everywhere, name: text })
const smallUploads = uploads('is read and thrown away where it is small')
const largeUploads = uploads('is read for a while where it is large')
const slotRelease = inTests('src/http/settlement.ts', 'test/adapters/slots-attack.test.ts')
const slotAttack = inTests('src/http/work.ts', 'test/adapters/slots-attack.test.ts')
const goneClients = inTests('src/http/request-limiter.ts', 'test/adapters/slots-attack.test.ts')
const smuggled = inTests('src/http/response/unread-body.ts', 'test/adapters/smuggling.test.ts')
const uploadFlood = inTests('src/http/response/unread-body.ts', 'test/adapters/upload-flood.test.ts')
const begunDenial = inTests('src/http/response/on-denied.ts', 'test/adapters/on-denied.test.ts')
const registration = inTests('src/limiter/registration.ts', 'test/http/checks.test.ts')
const createdLate = inTests('src/http/checks/created.ts', 'test/http/checks.test.ts')
const addressWarning = inTests('src/http/checks/whole-address.ts', 'test/http/keys/address-warning.test.ts')
const proxyWarning = inTests('src/http/checks/proxies.ts', 'test/http/keys/proxy-warning.test.ts')
const checksOff = ['test/adapters/checks.test.ts']
const madeByHand = inTests('src/http/checks/checked.ts', 'test/adapters/handmade-apps.test.ts')
const returnedIn = (file) => inTests(file, 'test/adapters/returned-values.test.ts')
const gate = inTests('src/http/request-limiter.ts', ...checksOff)
const lateChecks = inTests('src/http/checking.ts', 'test/http/late-checks.test.ts')
const silenced = (file) => inTests(file, ...checksOff)
const reads = inFile('src/http/keys/address.ts', { files: everywhere, name: 'the address' })
const checksOf = inFile('src/http/checks/checked.ts', { files: everywhere, name: 'checks' })
const sharedNames = inFile('src/http/denial.ts', { files: everywhere, name: 'names of their limiters' })
const unanswered = inTests('src/http/checks/unanswered.ts', 'test/adapters/on-denied.test.ts')
const mountedLate = inTests('adapters/express/mounted-late.ts', 'test/adapters/express/mounted-late.test.ts')
const honoKeyers = inTests('adapters/hono/index.ts', 'test/adapters/hono/keyers.test.ts')
const inherited = inTests('adapters/fastify/routes.ts', 'test/adapters/fastify/inherited.test.ts')
const nestedScopes = inTests('adapters/fastify/scope.ts', 'test/adapters/fastify/nested.test.ts')
const denialError = inTests('adapters/fastify/denial-error.ts', 'test/adapters/fastify/nested.test.ts')
const fastifyKeyers = inTests('adapters/fastify/keyers.ts', 'test/adapters/fastify/keyers.test.ts')
const hono = inTests('adapters/hono/index.ts', 'test/adapters/hono')
const honoEnd = inTests('adapters/hono/response-end.ts', 'test/adapters/hono/response-end.test.ts')
const node = inTests('adapters/node/index.ts', 'test/adapters/node/index.test.ts')
const nest = (file, test) => inTests(`adapters/nestjs/${file}.ts`, `test/adapters/nestjs/${test}.test.ts`)
const nestDelay = inFile('adapters/nestjs/adapter.ts', { files: everywhere, name: 'Nest.*a delay' })

/** Mistakes in what clients and frameworks see. */
export const http = [
  inFile('adapters/nestjs/exceptions.ts', {
    files: ['test/adapters/nestjs/messages.test.ts'],
    name: 'acknowledgement',
  })('an acknowledgement that never comes', "typeof answer === 'function'", "typeof answer === 'symbol'"),
  requestLimiter(
    'counts a preflight like other requests',
    'isPreflightOf(adapter, request) ? preflights : requests',
    'requests',
  ),
  requestLimiter(
    'throws a value that is not an object',
    "typeof reason === 'object' && reason !== null",
    'reason !== 1',
  ),
  hold('leaves the timer of a client that hung up', '        cancel()\n', ''),
  passes('drops the headers of the earlier limit', ': mergeDecisions(earlier.shown, part.decision)', ': part.decision'),
  passes(
    'uses the time of day instead of the clock',
    'clock?.given === true ? clock.now()',
    'clock?.given === false ? clock.now()',
  ),
  passes('does not expose the headers to scripts', 'withNames(String(existing ??', 'String((existing ??'),
  stackedInStacked(
    'uses the options of the last request limiter for all limits',
    'parts.find(({ decision }) => decision.limits.includes(status))',
    'parts.at(-1)',
  ),
  stackedInStacked(
    'uses its own options for all limits',
    'parts.every((part) => part.config === config)',
    'parts.length > 0',
  ),
  inTests('src/http/checks/clashes.ts', 'test/http/headers/stacked.test.ts')(
    'compares no styles',
    'if (known.has(other)) continue',
    'if (known !== undefined) continue',
  ),
  history('forgets the styles of earlier request limiters', 'parts: [...earlier.parts, part]', 'parts: [part]'),
  stackedInStacked('writes a denial in one style', 'if (!latest.allowed)', 'if (latest.allowed && !latest.allowed)'),
  passes('writes the limits of a silent request limiter', 'isSilent ? NO_LIMITS : part.decision', 'part.decision'),
  history('writes nothing when one store did not answer', 'if (!isAnswered(earlier)) return later', ''),
  historyInCounted(
    'takes all limits of a limiter for one',
    'charge.limit.name === status.limit.name && charge.key === status.key',
    'charge.key === status.key',
  ),
  historyInCounted('takes all keys of a limiter for one', ' && charge.key === status.key', ''),
  historyInCounted(
    'does not look at other stores',
    'charges.some((charge) => limits.some((status) => countsApart',
    'charges.every((charge) => limits.some((status) => !countsApart',
  ),
  historyInCounted('takes other keys for one on two stores', 'charge.key !== status.key || ', ''),
  historyInCounted('takes other limits for one on two stores', ' || charge.limit.name !== status.limit.name', ''),
  historyInCounted('takes memory stores for one', 'if (isMemoryPlace(one', 'if (!isMemoryPlace(one'),
  historyInCounted(
    'warns of limiters that share their counts',
    '!isSharedHome(one.home) && !isSharedHome(other.home)',
    'true',
  ),
  history(
    'forgets what came before the latest pass',
    'passAfter(earlier, { decision, config })',
    'passAfter(undefined, { decision, config })',
  ),
  valuesInValues(
    'rounds a window in floats',
    'Number((BigInt(window) * BigInt(units) + divisor - 1n) / divisor)',
    'Math.ceil((window * units) / Number(divisor))',
  ),
  lag('refills a part-full bucket at once', 'bucket.resetLag!(params) + params.idle', 'bucket.resetLag!(params)'),
  seconds('takes a rounding error for a second', '(ms - 1e-6) / 1000', 'ms / 1000'),
  valuesInValues('gives slots a window', 'window: countsSlots(limit) ? undefined : window', 'window'),
  standard('writes slots as requests', 'const unit = window === undefined ? SLOTS : given', 'const unit = given'),
  inTests('adapters/hono/index.ts', 'test/adapters/hono/index.test.ts')(
    'leaves the reset of an earlier limit',
    '    context.header(name, undefined)\n',
    '',
  ),
  inTests('src/http/headers/binding.ts', 'test/http/behaviours.test.ts')(
    'leaves the reset of an earlier limit',
    'if (value === undefined) remove?.(name)',
    'if (value === undefined) remove?.("")',
  ),
  denial(
    'promises a time for slots',
    "violated.length > 0 && violated.every(waitsForSlots) ? 'Try again later.' : ",
    '',
  ),
  denial('hides the time of another limit', 'violated.every(waitsForSlots)', 'violated.some(waitsForSlots)'),
  denial(
    'names the window of slots',
    "if (countsSlots(limit)) return limit.quota === 1 ? 'at a time' : 'at the same time'",
    '',
  ),
  denial('counts slots as units', "if (countsSlots(limit)) return cost > 1 ? 'slots' : 'requests'", ''),
  standard('writes t=0 while nothing is left', 'left === 0 && seconds === 0 ? 1 : seconds', 'seconds'),
  settlement(
    'refunds a client that hung up before the answer',
    'adapter.headersSent(response) && adapter.getStatus',
    'adapter.getStatus',
  ),
  inherited('inherits a message beside onDenied', "['onDenied', 'message', 'statusCode'],", ''),
  inherited('inherits a refund beside a count', "['count', 'refundWhen'],", ''),
  settlement('counts the others', "counted = count === 'failures' ?", "counted = count === 'successes' ?"),
  inherited('inherits the keyer beside a limiter', 'isWhole ? LIMITER_OPTIONS : []', '[]'),
  inherited('takes a hook of a response', 'OTHER_HOOKS.includes(name) &&', 'name === "" &&'),
  settlement('leaves the status of an aborted response', 'adapter.markAborted?.(response)', ''),
  reset(
    'refunds in addition to a reset',
    "if (isTrue('resetWhen', reset)) return 'reset'",
    'if (reset) void limiter.reset(request)',
  ),
  body('loses a Vary of the application', 'known === undefined ? value : withNames(String(known), [value])', 'value'),
  body('sends the message in an outage', " && decision.degraded !== 'closed'", ''),
  networks('limits nobody without an address', 'known !== undefined &&', 'known === undefined ||'),
  address('takes a private address out of NAT64', ' && isPublicIPv4(groups[6]! * 0x1_0000 + groups[7]!)', ''),
  networks(
    'takes a network of NAT64 for IPv6',
    "carrier === 'mapped' ? 96 : Infinity",
    "carrier === 'mapped' ? 96 : 0",
  ),
  networks(
    'takes the length of a mapped network for that of IPv4',
    "carrier === 'mapped' ? 96 :",
    "carrier === 'mapped' ? 0 :",
  ),
  settlement('settles in addition to a refund', "isTrue('refundWhen', known) ?", 'known && settleWith === undefined ?'),
  closedEarly(
    'misses that a response has already ended',
    'return Boolean(response.destroyed || response.stream?.closed || connectionOf(response)?.destroyed)',
    'return response.destroyed === undefined',
  ),
  nodeEnd('misses the end of a response that waits', 'connection === undefined ? [response]', 'true ? [response]'),
  nodeEnd('keeps the listener of a response that has ended', 'emitter.off(event, call)', 'emitter'),
  nodeEnd(
    'misses the end of a response without a server',
    "? ['close', 'finish'] : ['close']",
    "? ['close'] : ['close']",
  ),
  closed('misses a stream that was cancelled', ' || response.stream?.closed', ''),
  closed('misses a connection that is closed', ' || connectionOf(response)?.destroyed', ''),
  webEnd('misses a body that is cancelled', '      end()\n      return reader.cancel', '      return reader.cancel'),
  webEnd(
    'misses the end of a response without a body',
    '      queueMicrotask(() => this.#ended(response))\n      return response',
    '      return response',
  ),
  address('takes a mapped address for IPv6', 'if (isOfIPv4(groups))', 'if (subnet === undefined)'),
  address('takes a NAT64 address for IPv6', 'return a === 0x64 &&', 'return a === 0x65 &&'),
  ip('takes a number of two digits with a zero before it', '[1-9]?\\d)', '\\d?\\d)'),
  ip('takes a group of five digits', '{1,4}$/i.test(group)', '{1,5}$/i.test(group)'),
  ip('takes eight groups and a gap', 'gap > 0)', 'gap >= 0)'),
  ip('takes two gaps', ' && more.length === 0', ''),
  ip('shortens the last of two equal runs of zeros', 'run.length > longest.length', 'run.length >= longest.length'),
  ip('takes a network of documents for public', ' 203.0.113.0/24', ''),
  address('takes the last group for a port', "if (colon === -1 || text.includes(':', colon + 1))", 'if (colon === -1)'),
  setAddress('src/http/keys/address.ts', 'fastify')(
    'overlooks an address of the app that is that of the socket',
    "Object.hasOwn(request, 'ip') ||",
    '',
  ),
  setAddress('src/http/keys/address.ts', 'koa')(
    'overlooks another address',
    'ip !== socket?.remoteAddress &&',
    'ip === socket?.remoteAddress &&',
  ),
  setAddress('src/http/keys/address.ts', 'express')(
    'takes an address of a trusted proxy for one of the app',
    ' && !ips.includes(ip!)',
    '',
  ),
  setAddress('src/http/keys/address.ts', 'express')(
    'overlooks a socket whose address was set',
    ' || isSocketSet(socket)',
    '',
  ),
  setAddress('src/http/checks/proxies.ts', 'express')(
    'warns of trust although the app sets the address',
    'client.isSet?.(request) === true',
    'false',
  ),
  setAddress('src/http/checks/proxies.ts', 'express')(
    'warns of trust after a request whose address the app sets',
    "if (known !== undefined && settings.trust === 'everybody') return",
    '',
  ),
  parentheses('src/util/validate.ts')(
    'does not refuse a keyer that the user calls',
    'if (input !== undefined) return',
    'return',
  ),
  parentheses('src/util/validate.ts')(
    'does not refuse a function that the user has not called',
    'if (call !== undefined) refuse',
    'if (call === option) refuse',
  ),
  parentheses('src/util/validate.ts')('takes a web-standard request for options', 'names.length === 0 || ', ''),
  accept('sends text to a client that accepts JSON', ' && !/(?:application|\\*)\\/\\*/i.test(accept)', ''),
  denial('lets caches store a denial', "'no-store'", "'no-cache'"),
  denial('lists a shadow limit as violated', '!allowed && limit.shadow !== true', '!allowed'),
  denial('names the quota of a key that is locked out', 'each.lockedFor > 0', 'each.lockedFor < 0'),
  denial('does not say how many requests may come at once', 'capacity === limit.quota ? time', 'true ? time'),
  denial('asks for a smaller request where none is allowed', ' || capacity === 0', ''),
  denial('repeats the verb', 'return verb === before', "return verb === ''"),
  denial('does not know the unit of the options', 'unitOf(name, unit) ?? (cost', '(cost'),
  durations(
    'says that a client can try again too early',
    'count = Math.ceil(count / size)',
    'count = Math.floor(count / size)',
  ),
  retryAfterInRetry('uses the smaller of two waits', 'theirs > largest', 'theirs < largest'),
  retryAfterInRetry('writes Retry-After: 0', 'Math.max(1, wholeSeconds(wait))', 'wholeSeconds(wait)'),
  headerName('allows a name with a line break', '{1,128}$/', '{1,128}/'),
  names(
    'allows one name for two parts',
    'const repeated = used.find((name, i) => used.indexOf(name) !== i)',
    'const repeated = used[9]',
  ),
  errors('lets a value write to the terminal', 'showInvisible(JSON.stringify(', '(JSON.stringify('),
  errors('links to an anchor that does not exist', '#${code.toLowerCase()}', '#${code}'),
  errors(
    'quotes the link of another message',
    'return error.message.slice(0, -` (${helpFor(error.code)})`.length)',
    'return error.message',
  ),
  styles('takes two parts for the same', '`${part} in ${unit}`', 'unit'),
  binding('lists a quota twice', 'list.repeatsQuota ? withDistinctQuotas(decision) : list.text', 'list.text'),
  standard(
    'reuses the list of other limits',
    'if (items.length !== limits.length) return false',
    'if (items.length > 0) return true',
  ),
  standard('lists a shadow limit', 'values.limit.shadow !== true', 'values.quota >= 0'),
  standard('writes the unit of requests', " || unit === 'requests'", ''),
  inTests('src/http/checks/proxies.ts', 'test/adapters/express/keyers.test.ts')(
    'takes all apps for one',
    'const known = ofFramework.get(app)',
    'const known = undefined',
  ),
  express('misses that an app trusts everybody', "? 'everybody' : 'some'", "? 'some' : 'some'"),
  express('takes all routers for one', "found.numbers.join('.')", "''"),
  express('takes all apps for one', '[app.path(), place', "['', place"),
  koa('loses the headers on an error', '      keepHeaders(context)\n', ''),
  koa('takes a header of an error for ours', ' && !res.hasHeader(name)', ''),
  koa('forgets earlier limits on an error', 'parts.flatMap(', 'parts.slice(-1).flatMap('),
  koa('takes any denial for one that onDenied throws', " && res.getHeader('Cache-Control') === 'no-store'", ''),
  koaKeyers('takes a method for its route', "route.methods.length > 10 ? 'ALL' : route.methods", 'method'),
  koaKeyers('takes a route that already ran', 'Math.max(at, 0)', '0'),
  koaKeyers('misses a number of proxies', 'app.maxIpsCount > 0 || ', ''),
  koaKeyers('takes a middleware after all routes', 'matched?.slice(0, last)', 'matched'),
  ownRoutes(
    'counts a route and its HEAD route separately',
    'routes.find((each) => sharesLimit(each, own))?.limit ?? createFor',
    'createFor',
  ),
  ownRoutes(
    'counts a HEAD route separately when a hook creates its options',
    ' || (a.handler !== undefined && a.given === b.given && a.handler === b.handler)',
    '',
  ),
  earlyRoutes(
    'counts an early route and its HEAD route separately',
    '    ownRoutes.push(own)\n    return',
    '    return',
  ),
  scope(
    'limits a route by its scope in addition to its own limit',
    'own?.caller === scopeLimit ? own.limit!(request, reply, done) : done()',
    'limit(request, reply, done)',
  ),
  scope('limits a route that opts out', 'if (config.rateLimit === false) return done()', ''),
  scope('misses a 404 handler', 'scopeLimit.attached = true', 'scopeLimit.attached = false'),
  scope(
    'takes the options of another plugin for ours',
    "('limits' in options || 'limiter' in options || 'rules' in options)",
    'true',
  ),
  scope('counts again when hooks run again', 'if (passed?.has(request)) return done()', ''),
  fastify(
    'gives the plugin its own scope',
    "{ name: 'sluice', fastify: '5.x' }",
    "{ name: 'sluice', fastify: '5.x', encapsulate: true }",
  ),
  next('reads nothing of the request', '{ cookies } = request', '{ url: cookies } = request'),
  next('keeps a response that is made in a build', "=== 'phase-production-build'", "=== 'phase-export'"),
  next('misses a rewrite', ", 'x-middleware-rewrite'", ''),
  awaited('refuses every limit in proxy.ts', 'if (end.isAwaited) refuseContinued', 'refuseContinued'),
  awaited('counts before Next.js knows that the request is read', '      refuseStatic(request)\n', ''),
  createdLate(
    'warns although a limiter serves a second request',
    '?.delete(uses.definition)',
    '?.has(uses.definition)',
  ),
  createdLate('warns of limiters that a program keeps', '?.get(uses.definition) === singles)', '?.size !== 0)'),
  createdLate('takes modules of routes for one handler', 'String(new Error().stack)', "''"),
  createdLate('needs more than ten requests', 'const FEW = 5', 'const FEW = 10'),
  createdLate('warns of files that are edited', 'now - singles.times[0]! <= SOON', 'now > 0'),
  createdLate(
    'counts the apps of a test suite together',
    'app ?? (tools.isTestRun() ? undefined : UNKNOWN_APP)',
    'UNKNOWN_APP',
  ),
  createdLate('does not know the app of a request', 'countSingle(uses, app ?? (', 'countSingle(uses, undefined ?? ('),
  addressWarning('finds no address within a key', ' || containsAddress(key)', ''),
  addressWarning(
    'takes IPv4 in IPv6 for a whole address',
    "clientAddress(text)?.includes(':') === true",
    'clientAddress(text) !== undefined',
  ),
  proxyWarning('does not warn of Forwarded', "header === 'forwarded' ||", ''),
  history('implies the options of the latest request limiter', 'if (!impliedConfigs.has(home)) ', ''),
  history(
    'takes the default options for those of the limiter',
    'config: config ?? DEFAULT_CONFIG',
    'config: DEFAULT_CONFIG',
  ),
  standard('takes a text of another time', 'known?.left === left && known.seconds === seconds', 'known?.left === left'),
  standard('takes a text of another client', 'known?.left === left && known.seconds', 'known?.seconds'),
  scope(
    'reads the options of one route for all routes',
    'function limitRoute(): LimitHook {\n    let config: Config | undefined',
    'let config: Config | undefined\n  function limitRoute(): LimitHook {',
  ),
  silenced('src/http/request-limiter.ts')(
    'checks although checks are off',
    'withChecks(options.checks,',
    'withChecks(true,',
  ),
  silenced('src/http/checking.ts')(
    'takes every request for one that is checked',
    'readsOfChecked.has(request) ? loaded : undefined',
    'loaded',
  ),
  lateChecks('no checks in production', 'wanted === false', "process.env.NODE_ENV === 'production'"),
  lateChecks('fails without the checks', '.catch(() => undefined)', ''),
  lateChecks('does not check the requests after a load', 'use(loaded!)', 'undefined'),
  gate('checks every request', '++requestsSeen <= CHECKED_FIRST || requestsSeen % SAMPLE === 0', 'true'),
  gate('checks the first requests only', ' || requestsSeen % SAMPLE === 0', ''),
  reads(
    'does not note what read an address',
    'readsOfChecked.get(request as object)?.add(client as ClientInfo<never>)',
    '',
  ),
  checksOf('checks a request for the limits that follow', 'tools.readsOfChecked.delete(request)', ''),
  madeByHand('fails a request whose app cannot be read', 'attempt(() => appOf(given))', 'appOf(given)'),
  madeByHand('takes null for an app', '(app ?? undefined)', '(app as object)'),
  madeByHand('fails a request where no place in an app is found', 'attempt(() => checkApp?.(app))', 'checkApp?.(app)'),
  madeByHand(
    'fails a request whose proxies cannot be read',
    'attempt(() => checkProxies(client as ClientInfo<object>, request))',
    'checkProxies(client as ClientInfo<object>, request)',
  ),
  inTests('src/http/checking.ts', 'test/adapters/handmade-apps.test.ts')(
    'fails a request by route without an app',
    '// A test may pass an app that is not an object.',
    'throw new TypeError()',
  ),
  returnedIn('src/http/request-limiter.ts')('skips for any object', "isTrue('skip', known) ?", 'known ?'),
  returnedIn('src/http/settlement.ts')('refunds for any object', "isTrue('refundWhen', known) ?", 'known ?'),
  returnedIn('src/http/settlement.ts')('resets for any object', "isTrue('resetWhen', reset)", 'reset'),
  returnedIn('src/http/settlement.ts')('takes a text for an actual cost', ', checkedActual)', ', (cost) => cost)'),
  returnedIn('src/util/validate.ts')(
    'takes undefined for a mistake',
    'answer === true || !answer',
    "typeof answer === 'boolean'",
  ),
  silenced('adapters/fastify/scope.ts')(
    'warns of an early route although checks are off',
    'withChecks(wanted as boolean | undefined,',
    'withChecks(true,',
  ),
  nest('exceptions', 'messages')('gives a call of gRPC no status', "'toHttp2Headers' in", "'headers' in"),
  nest('class-names', 'decorators')('gives two classes one name', 'same.size === 1 ? name', 'true ? name'),
  inTests('adapters/nestjs/service.ts', 'test/adapters/nestjs/module.test.ts')(
    'warns of a missing guard although checks are off',
    'withChecks(this.#options.checks,',
    'withChecks(true,',
  ),
  inFile('src/http/options.ts', { files: everywhere, name: 'the options' })(
    'takes any value for checks',
    "boolean('checks', options.checks)",
    'options.checks',
  ),
  sharedNames('names the limits of the last middleware only', 'shownTogether(decision)', 'decision'),
  unanswered('does not warn', "else tools.warn('SLUICE_NOT_ANSWERED', MESSAGE)", ''),
  mountedLate('misses a mounted app', "name === 'mounted_app'", "name === 'app'"),
  mountedLate('warns of a rate limit before a route', '.every(isErrorHandler)', '.length >= 0'),
  mountedLate('waits for a request without a route', 'if (request.route !== undefined) checkApps(request.app)', ''),
  mountedLate(
    'overlooks a copy of a middleware',
    'Object.assign(middleware, { __original: middleware })',
    'middleware',
  ),
  mountedLate('warns twice', '    watched.delete(middleware)\n', ''),
  nestedScopes('inherits nothing in a scope within', 'outer === undefined ?', 'true ?'),
  nestedScopes('leaves out requests by the skip of another scope', 'without(outer, COUNTED) as GivenOptions', 'outer'),
  nestedScopes(
    'takes a plan for misspelt options',
    "(value !== false && (typeof value !== 'object' || value === null))",
    'false',
  ),
  denialError('loses the Retry-After of the application', "['cache-control', 'retry-after']", "['cache-control']"),
  honoKeyers('returns the middleware and not the route', "({ method }) => method !== 'ALL'", '() => true'),
  express('takes the route of an earlier handler', 'isMountedWithUse(app as Application, limitRate)', 'false'),
  expressErrors('lets Express read the body of a denied request', 'if (hasFailed) skipLargeBody(request)', ''),
  expressErrors('lets Express read a body after an error', 'skipLargeBody(request)\n      next(error)', 'next(error)'),
  smallUploads('ends the connection of a small upload', 'return !(bytesLeft(request) <= SMALL)', 'return true'),
  largeUploads('closes a connection during an upload', 'connection.destroySoon = lingerFirst', ''),
  largeUploads('keeps the connection of a large upload', 'return !(bytesLeft(request) <= SMALL)', 'return false'),
  slotAttack(
    'gives slots back with the response',
    'return this.#isClosed && (this.#isTracked ? this.#pending === 0 : this.#isAnswered)',
    'return this.#isClosed',
  ),
  slotAttack('gives slots back with the first promise', 'this.#pending === 0', 'true'),
  slotAttack(
    'renews the slots of a handler that never ends',
    '!this.#isClosed || (this.isPending && this.#renewals++ < MOST_RENEWALS)',
    'true',
  ),
  slotAttack('renews the slots of a promise that never settles', ' && this.#renewals++ < MOST_RENEWALS', ''),
  slotRelease("ignores release: 'response'", "release === 'response' ||\n", ''),
  goneClients('calls handlers for clients that are gone', 'adapter.isGone?.(request, response) === true', 'false'),
  smuggled('reads requests after a large body', "connection.removeAllListeners('data')\n", ''),
  uploadFlood('reads any number of bytes', 'bytes >= LINGER_BYTES || !mayRead(length)', 'false'),
  uploadFlood('keeps any number of connections', 'connections.size >= MOST', 'false'),
  uploadFlood('keeps no place for a body that has arrived', 'connections.delete(connection)', ''),
  uploadFlood('lingers for ever', 'held(connection, LINGER_MS, end)', 'held(connection, 2 ** 30, end)'),
  begunDenial('sends a thrown denial with the Cache-Control of the application', 'if (isError) return', ''),
  registration('takes no memory store for a new one', ' && !homes.has(given.place)', ' && false'),
  registration('takes every memory store for a new one', ' && !homes.has(given.place)', ''),
  scope('accepts rateLimit that a hook sets', 'limits.checks.push(checkPlace, ', 'limits.checks.push('),
  scope('accepts rateLimit outside of config', 'scope[LIMITED] === true || isOurs', 'isOurs'),
  lastHooks(
    'runs the limit before the hooks of a route',
    '[others ?? []].flat().concat(last)',
    '[...last, others ?? []].flat()',
  ),
  lastHooks(
    'limits twice where a scope and a route have the hook',
    'latest.isReplaced = true',
    'latest.isReplaced = false',
  ),
  fastifyKeyers('misses a number of proxies', "typeof trustProxy === 'number'", "typeof trustProxy === 'bigint'"),
  webResponse('overwrites a header of the handler', '.filter(([name]) => !response.has(name))', ''),
  webResponse(
    'uses the shorter of two waits',
    'mergeRetryAfter(theirs, Number(ours), Date.now())!',
    'Math.min(Number(theirs), Number(ours))',
  ),
  webResponse('keeps the shorter wait in milliseconds', 'millisecondsBeside(seconds, Number(ours), ms)', 'ms'),
  webResponse('overwrites the milliseconds of the application', ' && !response.has(RETRY_AFTER_MS)', ''),
  styles('does not expose retry-after-ms', '...(hasMilliseconds(config) ? [RETRY_AFTER_MS] : []), ', ''),
  modelsInPerLimit(
    'writes a shadow limit for clients of language models',
    'if (status.limit.shadow === true) continue\n      const { limit }',
    'const { limit }',
  ),
  modelsInPerLimit(
    'shows the last of several limits with the same name',
    'if (other === undefined || isUsedUpSooner(status, other)) kept',
    'kept',
  ),
  modelsInPerLimit('compares the names of limits with their case', 'name.toLowerCase().replace(', 'name.replace('),
  modelsInPerLimit('writes a name that no header can have', "-]/g, '-')", "-]/, '-')"),
  modelsInPerLimit('promises a reset for running requests', '?.slots === true', '?.slots === undefined'),
  modelsInPerLimit(
    'resets before the request would be admitted',
    'Math.max(resetAfter, wait === Infinity ? 0 : wait)',
    'resetAfter',
  ),
  modelsInPerLimit(
    'says that the quota is available while nothing is left',
    'const least = left === 0 ? 1 : 0',
    'const least = 0',
  ),
  modelsInPerLimit(
    'writes milliseconds in place of seconds',
    'whole > 0 && whole < 1000',
    'whole > 0 && whole <= 1000',
  ),
  modelsInPerLimit('omits the minutes', 'return minutes > 0 ? ', 'return minutes > 1 ? '),
  seconds('rounds milliseconds down', 'Math.min(Math.ceil(ms - 1e-6), MAX', 'Math.min(Math.floor(ms), MAX'),
  modelsInPerLimit('writes years of five digits', 'Math.min(epochSeconds(ms), LAST_SECOND)', 'epochSeconds(ms)'),
  inFile('src/http/headers/styles.ts', { files: everywhere, name: 'the headers' })(
    'misses the clock of the store',
    '    needsTime: true,\n    perLimit: ANTHROPIC,',
    '    perLimit: ANTHROPIC,',
  ),
  styles(
    'shares a header with a style for each limit',
    'forEachLimit.find((style) => STYLES[style].perLimit!.pattern.test(name))',
    'undefined',
  ),
  binding(
    'takes the shorter wait of two limits with the same name',
    'return a.retryAfter > b.retryAfter',
    'return a.retryAfter < b.retryAfter',
  ),
  modelsInRetry('tells a wait of no time in an outage', 'return ms > 1000 && ms !== Infinity ? ms : 1000', 'return ms'),
  modelsInRetry('keeps the milliseconds of the shorter wait', 'seconds === ours ? ms : seconds * 1000', 'ms'),
  inTests('src/http/headers/stacked.ts', 'test/http/headers/stacked.test.ts')(
    'forgets the milliseconds of an earlier style',
    'passOf(decision).parts.some(({ config }) => hasMilliseconds',
    'passOf(decision).parts.every(({ config }) => hasMilliseconds',
  ),
  inTests('src/http/headers/stacked.ts', 'test/http/headers/stacked.test.ts')(
    'exposes the headers of the first style only',
    'parts.flatMap(({ config }) => exposedHeaders(',
    'parts.slice(0, 1).flatMap(({ config }) => exposedHeaders(',
  ),
  inFile('src/http/request-limiter.ts', { files: everywhere, name: 'the headers' })(
    'sends retry-after-ms in every style',
    'if (!showsMilliseconds(decision)) return',
    '',
  ),
  inTests('src/http/plain.ts', 'test/http/responses-for.test.ts')(
    'returns milliseconds in an outage',
    '(isAnswered(decision) && millisecondsOf(decision, config))',
    'millisecondsOf(decision, config)',
  ),
  koa('loses the milliseconds of a denial', "'Retry-After', RETRY_AFTER_MS]", "'Retry-After']"),
  webResponse(
    'admits a request whose onDenied returns no response',
    "typeof returned === 'object' && returned !== null && 'headers' in returned",
    'returned !== null',
  ),
  hono('replaces the headers of a denial', 'for (const name of draftOf(context).keys()) context.header(name)', ''),
  hono(
    'keeps the headers of a body that was replaced',
    "for (const name of ['Content-Type', 'Cache-Control', 'Vary']) draftOf(context).delete(name)",
    '',
  ),
  hono('writes headers over those of the handler', 'context.newResponse(null, 200).headers', 'context.res.headers'),
  hono(
    'takes the first read of a response on Node for its end',
    'if (closing === undefined) return responseEndOf',
    'if (closing !== null) return responseEndOf',
  ),
  honoEnd('misses a response that bypasses Hono', ' && !context.res.headers.has(ALREADY_SENT)', ''),
  node('leaves a socket open', "closeWith(socket, 'HTTP/1.1 500", "void (socket, 'HTTP/1.1 500"),
  onError(
    'drops a promise of onError',
    '    detached(\n      () => onError(error, request, response),',
    '    detached(\n      () => void onError(error, request, response),',
  ),
  head('redirects with the status of a denial', 'reply.raw.statusCode = status', 'reply.code(status)'),
  started('leaves the status of a denial after an error', '    undo(true)\n', ''),
  koaStatus('makes the status before a denial explicit', 'status === statusCode ? isExplicit : true', 'true'),
  honoStatus('forgets the status before a denial', 'return context.newResponse(null).status', 'return 200'),
  userAddress('takes a promise for a missing address', 'if (isPromise(raw)) refuse', 'if (raw === isPromise) refuse'),
  node('leaves a denied socket half open', "  socket.once('finish', () => socket.destroy())\n", ''),
  nest('adapter', 'module')('counts a user once', ' || request !== context.switchToHttp().getRequest()', ''),
  nest('module', 'module')('starts with limits of each request', 'limits !== undefined && ', 'limits === null && '),
  nest('adapter', 'graphql')(
    'counts the fields of an operation once',
    '(firstDecisions.has(request) ? firstDecisions.get(request) : (request as Limited).rateLimit)',
    '(request as Limited).rateLimit',
  ),
  nest('decorators', 'decorators')(
    'skips a handler with limits of its own',
    '  if (limitsOf(handler) !== undefined) return false\n',
    '',
  ),
  nest('service', 'decorators')('ignores the cost of a handler', 'currentExchange()?.cost ?? common', 'common'),
  nestDelay(
    'reports a client that hung up as an error',
    "    if (exchange.decision?.allowed === true && kindOf(exchange.context) === 'http') await never()\n",
    '',
  ),
]
