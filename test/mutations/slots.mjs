import { inFile } from './mutation.mjs'

const model = { files: ['test/stores/slots.test.ts'] }
const served = { files: ['test/adapters/slots.test.ts', 'test/adapters/slots-attack.test.ts'] }
const algorithm = inFile('src/algorithms/concurrent.ts', model)
const inLua = inFile('src/algorithms/concurrent.lua', model, 'Lua')
const engine = inFile('src/engine/adjust.ts', model)
const row = inFile('src/engine/row.ts', model)
const compiled = inFile('src/engine/compiled-limit.ts', model)
const limit = inFile('src/engine/limit.ts', model)
const rows = inFile('src/stores/rows.ts', model)
const redis = inFile('src/stores/redis/lua/adjust.lua', model, 'Lua')
const notes = inFile('src/stores/redis/lua/records.lua', model, 'Lua')
const limiter = inFile('src/limiter/ending.ts', model)
const lost = inFile('src/limiter/ending.ts', { files: ['test/limiter/slot-lost.test.ts'] })
const penalty = inFile('src/limiter/default-limiter.ts', model)
const decision = inFile('src/limiter/decision.ts', model)
const local = inFile('src/stores/guard/local.ts', { files: ['test/stores/guard/held-slots.test.ts'] })
const denials = inFile('src/stores/deny-cache/denials.ts', model)
const keeper = inFile('src/limiter/slots.ts', served)
const others = inFile('src/limiter/slots.ts', model)
const recovered = inFile('src/limiter/slots.ts', { files: ['test/stores/guard/slots.test.ts'], name: 'answers again' })
const guarded = inFile('src/stores/guard/guarded-store.ts', model)
const held = inFile('src/stores/guard/guarded-store.ts', { files: ['test/stores/guard/held-slots.test.ts'] })
const outage = inFile('src/stores/guard/guarded-store.ts', { files: ['test/stores/redis/slots-outage.test.ts'] })
const settlement = inFile('src/http/settlement.ts', served)
const requests = inFile('src/http/request-limiter.ts', served)
const reset = inFile('src/http/response/node.ts', { files: ['test/adapters/slots-attack.test.ts'], name: 'node:http2' })
const answered = inFile('src/http/response/node.ts', served)
const replied = inFile('adapters/fastify/adapter.ts', served)
const honoEnd = inFile('adapters/hono/response-end.ts', served)
const queue = inFile('src/http/queue.ts', served)
const wait = inFile('src/limiter/queue/wait-queue.ts', {
  files: ['test/limiter/wait.test.ts', 'test/adapters/slots.test.ts'],
})

/** Mistakes in what runs at the same time, and in what waits for it. */
export const slots = [
  reset(
    'a reset without an event is not found',
    'if (response.stream !== undefined) stops.push(whenFoundClosed(response, closed))',
    '',
  ),
  answered('a slot that stays after its WebSocket', '?.upgrade === true) return', '?.upgrade === 0) return'),
  answered(
    'a slot of a response that its handler destroys',
    "['end', 'destroy', 'write', 'writeHead'] as const",
    "['end', 'write', 'writeHead'] as const",
  ),
  answered(
    'a slot of a handler that writes after its client has gone',
    "['end', 'destroy', 'write', 'writeHead'] as const",
    "['end', 'destroy', 'writeHead'] as const",
  ),
  answered(
    'a slot of a handler that sends the headers after its client has gone',
    "['end', 'destroy', 'write', 'writeHead'] as const",
    "['end', 'destroy', 'write'] as const",
  ),
  answered('a slot of a stream that never writes', "source.once('close'", "source.once('never'"),
  replied('a slot of a web stream in Fastify', 'if (isWebStream(payload)) listener()', ''),
  replied('a slot of a request that Fastify forwards', 'if (isClosed(reply.raw)) listener()', ''),
  honoEnd(
    'a slot that ends with the handshake of a WebSocket',
    'incoming?.upgrade === true',
    'incoming?.upgrade === 0',
  ),
  requests(
    'a handler for a client that has gone before',
    'if (!isThere(request, response)) {',
    'if (isThere === undefined) {',
  ),
  others('a reset of one limit that ends the renewal of others', 'isHeld || holdsSlots(decision)', 'isHeld'),
  guarded('a late renewal that is lost', 'this.#ask(operation, [], ended, late)', 'this.#ask(operation, [], ended)'),
  guarded(
    'a late renewal that is not given back',
    'else if (receipt === undefined) void undo(this.#inner, [chargedAt(charge, at, units)])',
    '',
  ),
  held('slots of an outage that stay in this process', 'else if (isLocal) this.#local.handOver(charge)', ''),
  outage(
    'slots that wait for their next renewal after an outage',
    'if (!part.isOut) for (const recovered of recoveries) recovered(this.place)',
    '',
  ),
  algorithm('a slot that is taken again beyond the quota', 'takes && others + units <= params.quota', 'takes'),
  algorithm('a slot that is gone for ever', 'takes && others + units <= params.quota', 'false'),
  inLua('a slot that is taken again beyond the quota in Lua', 'takes and others + units <= params.quota', 'takes'),
  engine(
    'a slot that is taken again after a reset',
    'row.isShared || !isCertain(row, compiled, charge.at, now)',
    'row.isShared',
  ),
  engine('a slot that a lost state does not give again', '!(takes && row.countsUntil(now) <= now)', 'true'),
  redis(
    'a slot that is taken again after a reset on Redis',
    'if not isUndisturbed(attempt, chargedAt) then return end',
    '',
  ),
  redis('a slot with a receipt that is taken again on Redis', 'local takes = not plan.isOnce', 'local takes = true'),
  rows('a slot with a receipt that is taken again in rows', 'now, receipt === undefined', 'now, true'),
  lost('a slot that was released and is taken again', '|| released.has(decision)) return false', ') return false'),
  lost('a release elsewhere that counts as a loss', 'use?.isRepeated === true || ', ''),
  lost('slots that are lost in silence', 'if (gone <= 0 || isEnded) continue', 'continue'),
  limiter(
    'slots that are lost when their release fails',
    '// Slots can be given back again.\n  if (releases) charges',
    'if (!releases) charges',
  ),
  algorithm('a wait for a slot that is a promise', 'out.retry = params.hint', 'out.retry += 1'),
  algorithm('a smaller quota that frees slots', 'out.next[0] = kept\n', 'out.next[0] = Math.min(kept, params.quota)\n'),
  algorithm(
    'a renewal that keeps the time of a slot',
    'writeEdit(out.edit, over, chargedAt, moved, index, kept)',
    'writeEdit(out.edit, over, 0, 0, index, 0)',
  ),
  algorithm(
    'a renewal of a slot whose lease has ended',
    'chargedAt > index - params.life ? entries.costAt(chargedAt) : 0',
    'entries.costAt(chargedAt)',
  ),
  inLua(
    'a renewal that keeps the time of a slot in Lua',
    'entries.edit(over, chargedAt, moved, index, kept)',
    'entries.edit(over, 0, 0, index, 0)',
  ),
  inLua('a renewal that renews more than was taken', 'min(units, held)', 'held'),
  engine('slots that a changed limit cannot give back', '|| (slots && writer?.perMs === perMs)', ''),
  engine('a renewal that is not kept', '  keep(row, under, now)\n  return { at', '  return { at'),
  row('slots that a changed limit keeps for itself', 'this.isConverted && !compiled.slots', 'this.isConverted'),
  compiled('a limit of slots that does not say so', 'algorithm.renew !== undefined', 'algorithm.renew === undefined'),
  limit('a strict limit of slots', '!countsSlots && { strict', '{ strict'),
  rows(
    'a renewal that rows do not report',
    '(renewed[i] = renew(row, charges[i]!, now, receipt === undefined))',
    '(renewed[i] = { at: charges[i]!.at, units: 1 })',
  ),
  redis(
    'slots that a changed limit cannot give back on Redis',
    'return kind and kind.slots and kind == attempt.kind',
    'return false and kind.slots and kind == attempt.kind',
  ),
  redis(
    'a refund on Redis that forgets changed limits',
    'if not group.isUsual then return false end\n  local isChanged',
    'if not group.isUsual then return true end\n  local isChanged',
  ),
  notes(
    'slots that a changed limit keeps for itself on Redis',
    'attempt.kind.slots or record.signature',
    'record.signature',
  ),
  limiter(
    'slots that are given back twice',
    'charge.markCharged(charge.at, 0)',
    'charge.markCharged(charge.at, charge.charged)',
  ),
  limiter(
    'slots that a settlement gives back',
    'releases && charge.allowed ? -charge.charged : 0',
    'charge.allowed ? -charge.charged : 0',
  ),
  penalty(
    'a penalty that takes slots',
    "policy.compiled.slots ? 0 : checkedCost(unitsOf(limit), 'units')",
    "checkedCost(unitsOf(limit), 'units')",
  ),
  decision('a hint that comes before a promise', 'isHint === waitsForSlots(before) ?', 'isHint === isHint ?'),
  local('a renewal that a guard forgets', 'copy.markCharged(at, units)', ''),
  denials('a denial by slots that is remembered', 'if (policy.compiled.slots) return -Infinity', ''),
  recovered('slots of a store that answers again, renewed later', 'recoveries.add(renewAt)', 'void renewAt'),
  keeper('slots that nobody renews', 'if (everyOf(lease) < timer.every) start(everyOf(lease))', ''),
  settlement(
    'slots of a client that hangs up while it waits',
    'void attempted(() => end(decision, undefined))',
    'return',
  ),
  settlement(
    'slots that wait for a cost',
    'if (isPromise(known) && !isReleased) {',
    'if (isPromise(known) && isReleased) {',
  ),
  settlement(
    'slots that a failed settlement keeps',
    'if (!isReleased) await attempted',
    'if (isReleased) await attempted',
  ),
  requests('slots that nobody gives back', 'charged.hasOutcome || holdsSlots(decision)', 'charged.hasOutcome'),
  queue('a queue without a bound', 'maxPerKey: max', 'maxPerKey: 1_000_000'),
  queue('a queue of all keys without a bound', 'maxQueue: maxTotal', 'maxQueue: 1_000_000'),
  wait('a full queue that denies the newcomer of a short key', 'isAdded ? added', 'true ? added'),
  queue('a client that hangs up in the queue and keeps its place', '() => gone.abort()', '() => undefined'),
  wait('a wait for a slot that ends with its hint', '!tools.waitsForSlots(status)', 'status !== undefined'),
]
