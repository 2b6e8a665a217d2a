import { inFile } from './mutation.mjs'

const everywhere = ['test/adapters/adapters.test.ts']

const gate = inFile('src/http/request-limiter.ts', {
  files: [...everywhere, 'test/adapters/express/express.test.ts', 'test/adapters/koa/koa.test.ts'],
})
const teller = inFile('src/http/headers/stacked.ts', { files: everywhere })
const stacked = { files: ['test/http/headers/stacked.test.ts'] }
const together = inFile('src/http/headers/stacked.ts', stacked)
const merging = inFile('src/http/headers/write-headers.ts', stacked)
const passed = inFile('src/http/history.ts', {
  files: ['test/http/headers/stacked.test.ts', 'test/http/history.test.ts'],
})
const terms = inFile('src/http/headers/values.ts', { files: ['test/http/headers/write-headers.test.ts'] })
const partFull = inFile('src/algorithms/token-bucket-initial.ts', {
  files: ['test/http/headers/write-headers.test.ts'],
})
const outcome = inFile('src/http/settlement.ts', { files: everywhere, name: 'the outcome' })
const hold = inFile('src/http/hold.ts', { files: everywhere, name: 'a delay' })
const ended = inFile('src/http/response/node-end.ts', { files: everywhere, name: 'a delay' })
const closing = inFile('src/http/response/node-end.ts', { files: ['test/http/response/node-end.test.ts'] })
const ending = inFile('src/http/response/web-end.ts', { files: ['test/adapters/fetch/fetch.test.ts'] })
const address = inFile('src/http/keys/address.ts', { files: ['test/http/keys/address.test.ts'] })
const accept = inFile('src/http/headers/accept.ts', { files: ['test/http/denial.test.ts'] })
const problem = inFile('src/http/denial.ts', { files: ['test/http/denial.test.ts'] })
const retry = inFile('src/http/headers/retry-after.ts', { files: ['test/http/headers/retry-after.test.ts'] })
const fields = { files: ['test/http/headers/write-headers.test.ts', 'test/http/headers/names.test.ts'] }
const figures = inFile('src/http/headers/figures.ts', fields)
const names = inFile('src/http/headers/names.ts', fields)
const validation = inFile('src/util/validate.ts', fields)
const styles = inFile('src/http/headers/styles.ts', fields)
const numbered = inFile('src/http/headers/numbered.ts', fields)
const newest = inFile('src/http/headers/standard.ts', fields)
const client = inFile('src/http/keys/ip-keyer.ts', { files: ['test/adapters/express/express.test.ts'] })
const express = inFile('adapters/express/keyers.ts', { files: ['test/adapters/express/express.test.ts'] })
const koa = inFile('adapters/koa/error-headers.ts', { files: ['test/adapters/koa/koa.test.ts'] })
const routes = inFile('adapters/express/route-key.ts', { files: ['test/adapters/express/express.test.ts'] })
const koaKeyers = inFile('adapters/koa/keyers.ts', { files: ['test/adapters/koa/koa.test.ts'] })
const fastify = { files: ['test/adapters/fastify/fastify.test.ts'] }
const scope = inFile('adapters/fastify/scope.ts', fastify)
const late = inFile('adapters/fastify/scope.ts', { files: ['test/adapters/fastify/fastify-late.test.ts'] })
const plugin = inFile('adapters/fastify/index.ts', fastify)
const fastifyKeyers = inFile('adapters/fastify/keyers.ts', fastify)
const lateFields = inFile('src/http/response/web-response.ts', {
  files: ['test/adapters/fetch/fetch.test.ts', 'test/adapters/hono/hono.test.ts'],
})
const hono = inFile('adapters/hono/index.ts', { files: ['test/adapters/hono/hono.test.ts'] })
const node = inFile('adapters/node/index.ts', { files: ['test/adapters/node/node.test.ts'] })

/** Slips in what clients and frameworks see. */
export const http = [
  gate('a preflight counted', 'if (preflight) return true', 'if (preflight && skip !== undefined) return true'),
  gate('a fault that is no object passed on', "typeof reason === 'object' && reason !== null", 'reason !== 1'),
  teller('fields of the limit before lost', ': mergeDecisions(before.decision, decision)', ': decision'),
  teller(
    'fields not exposed to scripts',
    '    expose(response)\n    if (silent) return\n    written = response\n    write(',
    '    if (silent) return\n    written = response\n    write(',
  ),
  teller('the time of day for that of a clock', '(clock ?? Date)', '(clock && Date ? Date : Date)'),
  together('limits in the words of the last gate', 'for (const each of [earlier, decision]) lend(each)', ''),
  together('styles compared with none', 'if (compared.has(other)) continue', 'if (compared !== undefined) continue'),
  together('styles of the latest gate alone', '[...before.voices, voice]', '[voice]'),
  together('a denial told in one style', 'decision.allowed ? [] : told.voices', 'told.voices.slice(0, 0)'),
  together('a silent gate told of', 'voice.headers === false ? NOTHING : earlier', 'earlier'),
  merging('nothing told where one store gave no answer', 'if (!isAnswered(earlier)) return later', ''),
  passed(
    'limits of one limiter taken for one',
    'a.limit.name === b.limit.name && policy.home === other.home',
    'policy.home === other.home',
  ),
  terms(
    'a window rounded in floats',
    'Number((BigInt(window) * BigInt(units) + divisor - 1n) / divisor)',
    'Math.ceil((window * units) / Number(divisor))',
  ),
  partFull(
    'a part-full bucket that refills at once',
    'bucket.resetLag!(params) + params.idle',
    'bucket.resetLag!(params)',
  ),
  outcome('a refund for who hung up before the answer', 'if (!surface.sent(response)) return', ''),
  outcome(
    'a settlement beside a refund',
    '? 0 : await settleWith',
    '&& settleWith === undefined ? 0 : await settleWith',
  ),
  hold('a timer for who has hung up', '      cancel()\n', ''),
  ended(
    'a response that was over unnoticed',
    'if (response.destroyed || response.stream?.destroyed || connection?.destroyed)',
    'if (response.destroyed === undefined)',
  ),
  closing('a response that waits left to itself', '  queue?.add(over)\n', ''),
  closing('one that is over listened to', '    queue?.delete(over)\n', ''),
  closing('a stream that was cancelled unnoticed', ' || response.stream?.destroyed', ''),
  closing('a connection that is gone unnoticed', ' || connection?.destroyed', ''),
  ending('a body that is dropped never over', '      end()\n      return reader.cancel', '      return reader.cancel'),
  ending(
    'a response without a body never over',
    '      queueMicrotask(() => this.#over(answer))\n      return answer',
    '      return answer',
  ),
  address('a mapped address taken for IPv6', 'if (address.isIPv4MappedAddress())', 'if (network === undefined)'),
  address(
    'a number taken for an address',
    'if (isIP(tail) === 4) return tail',
    'if (ipaddr.IPv4.isValid(tail)) return tail',
  ),
  address('an IPv4 tail left to the library', 'ipaddr.IPv6.parse(hexadecimal(text))', 'ipaddr.IPv6.parse(text)'),
  address('the last group taken for a port', "if (colon === -1 || text.includes(':', colon + 1))", 'if (colon === -1)'),
  accept('text for who takes JSON as well', ' && JSON_TYPES.every((type) => weight(ranges, type) === 0)', ''),
  problem('a denial that is cached', "'no-store'", "'no-cache'"),
  problem('a shadow limit named as violated', '!allowed && limit.shadow !== true', '!allowed'),
  retry('the smaller of two waits', 'theirs > largest', 'theirs < largest'),
  retry('Retry-After: 0', 'return Math.max(1, seconds(ms))\n}\n\n/**', 'return seconds(ms)\n}\n\n/**'),
  figures('a hair that costs a second', '(ms - 1e-6) / 1000', 'ms / 1000'),
  figures('t=0 while nothing is left', 'left === 0 && whole === 0 ? 1 : whole', 'whole'),
  validation('a name with a line break', '{1,128}$/', '{1,128}/'),
  names(
    'two parts in one field',
    'const twice = told.find((name, i) => told.indexOf(name) !== i)',
    'const twice = told[9]',
  ),
  styles('another part taken for the same', '`${part} in ${syntax}`', 'syntax'),
  numbered('one quota listed twice', 'list.twins ? withoutTwins(decision) : list.text', 'list.text'),
  newest('a unit that goes without saying', " && unit !== 'requests'", ''),
  client('an app for all', 'if (app !== latest)', 'if (watch === undefined)'),
  express('everybody taken for somebody', "? 'everybody' : 'some'", "? 'some' : 'some'"),
  koa('fields that go with an error', 'kept.has(name.toLowerCase()) ? undefined : ', ''),
  koa('fields of another’s error for ours', 'if (kept.has(lower) && lower !== EXPOSE) return res', ''),
  koa('what we expose forgotten', 'kept.has(lower) ? exposeHeaders(String(value), exposed) : value', 'value'),
  koaKeyers('a method for its route', "route.methods.length > 10 ? 'ALL' : route.methods", 'method'),
  koaKeyers('routes that have passed', 'Math.max(at, 0)', '0'),
  routes('routers alike', '`${index + 1}${place && `.${place}`}`', 'place'),
  routes('apps alike', '[app.path(), place', "['', place"),
  node('a socket left open', '        } finally {\n', '        } catch (failed) {\n          throw failed\n'),
  koaKeyers('a count of proxies not seen', 'app.maxIpsCount > 0 || ', ''),
  scope('a route and its HEAD apart', 'known.find((each) => areTwins(each, own))?.pass ?? make', 'make'),
  scope(
    'a limit of one’s own beside that of the scope',
    'own.runner === cover ? own.pass!(request, reply, done) : done()',
    'pass(request, reply, done)',
  ),
  scope('a route that opts out limited', 'if (config.rateLimit === false) return done()', ''),
  scope('a 404 handler not seen', 'cover.attached = true', 'cover.attached = false'),
  scope('another plugin’s options taken for ours', "&& ('limits' in options || 'limiter' in options)", ''),
  scope('a HEAD apart where a hook makes its options', ' || (a.given === b.given && a.handler === b.handler)', ''),
  late('an unseen route and its HEAD apart', 'runner.unseen.push(made)', ''),
  scope('hooks that run again taken for a second mount', 'if (passed?.has(request)) return done()', ''),
  plugin('a scope of the plugin’s own', "[Symbol.for('skip-override')]: true", "[Symbol.for('skip-override')]: false"),
  fastifyKeyers('a number of proxies not seen', "typeof trustProxy === 'number'", "typeof trustProxy === 'bigint'"),
  lateFields('a field of the handler’s overwritten', '.filter(([name]) => !response.has(name))', ''),
  lateFields('a shorter wait for a longer one', 'String(mergeRetryAfter(theirs, Number(ours), Date.now()))', 'ours'),
  koaKeyers('middlewares after all routes', 'matched?.slice(0, last)', 'matched'),
  koa('an error answered by who is passed before', '    Object.assign(context, { onerror: answer })\n', ''),
  hono('ours in place of what a denial says', 'for (const name of draftOf(context).keys()) context.header(name)', ''),
  hono(
    'what belongs to the body of a denial',
    "for (const name of ['Content-Type', 'Cache-Control']) draftOf(context).delete(name)",
    '',
  ),
  hono('an answer past Hono', ' && !context.res.headers.has(ALREADY_SENT)', ''),
  gate(
    'an onDecision that is no whole promise',
    'void Promise.resolve(seen).catch',
    'void (seen as Promise<unknown>).catch',
  ),
  hono('fields before those of the handler', 'context.newResponse(null, 200).headers', 'context.res.headers'),
  hono(
    'an outcome told at the first look on Node',
    'outgoing === undefined ? endingOf',
    'outgoing !== null ? endingOf',
  ),
  lateFields(
    'an onDenied without an answer a way in',
    "typeof answer === 'object' && answer !== null && 'headers' in answer",
    'answer !== null',
  ),
  node('a socket that is gone handed on', 'if (!socket.destroyed) listener', 'listener'),
  node('a refused socket left half open', "  socket.once('finish', () => socket.destroy())\n", ''),
]
