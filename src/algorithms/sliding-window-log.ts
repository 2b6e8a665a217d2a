import type { Algorithm, Parameters } from './algorithm.ts'
import { type Entries, writeEdit } from './entries.ts'
import { LARGEST, rescale } from './arithmetic.ts'

/**
 * `slidingWindowLog`, and on coarser time `slidingWindowBuckets`: every admitted request is remembered until the window has
 * left it behind, so that no window ever holds more than `quota`.
 *
 * Time is counted in grains: `i = ⌊t / grain⌋`. An entry made in grain `i` counts while the time is before
 * `(i + life) · grain`: for the log a grain is a tick and its life the window, for buckets a grain is a bucket and its life
 * one more than there are buckets. State `(sum, newest)`: the cost of all entries and the grain of the newest; entries
 * `(grain, cost)`, oldest first. Entries that are over stay, and stay in `sum`, until something is written. One that was
 * given back may be left with cost 0, and counts as over.
 */
export type Name = 'quota' | 'grain' | 'life'

/** What `advance` returns. One object serves every call, so that a step allocates nothing. */
const advanced = { index: 0.5, sum: 0.5, drop: 0, first: 0 }

/** Returns the grain at `now`, never before the newest entry, the sum by then, how many entries are over, and the next one. */
function advance(
  params: Parameters<Name>,
  cells: Float64Array,
  offset: number,
  now: number,
  entries: Entries,
): typeof advanced {
  const index = Math.max(Math.floor(now / params.grain), cells[offset]! > 0 ? cells[offset + 1]! : -Infinity)
  let sum = cells[offset]!
  let drop = 0
  let e = entries.first
  while (e !== -1 && (entries.time(e) + params.life <= index || entries.cost(e) === 0)) {
    sum -= entries.cost(e)
    drop++
    e = entries.next(e)
  }
  advanced.index = index
  advanced.sum = sum
  advanced.drop = drop
  advanced.first = e
  return advanced
}

const step: Algorithm<Name>['step'] = (params, cells, offset, now, cost, out, entries) => {
  const { quota, grain, life } = params
  const { index, sum } = advance(params, cells, offset, now, entries)
  let { drop, first: e } = advanced

  const allowed = cost === 0 || cost <= quota - sum
  const persist = !allowed && params.strict === 1
  const pushed = allowed ? cost : persist ? Math.min(cost, quota) : 0
  const kept = allowed ? sum + cost : persist ? Math.max(sum, quota) : sum

  // A denied request that is charged saturates the log: the oldest cost makes way.
  let excess = sum + pushed - kept
  while (excess > 0 && excess >= entries.cost(e)) {
    excess -= entries.cost(e)
    drop++
    e = entries.next(e)
  }
  const front = e
  const frontCost = excess > 0 ? entries.cost(e) - excess : -1

  // Until so much of what is oldest is over that the cost fits.
  const isWaiting = !allowed && cost <= quota
  let held = kept
  let last = index
  while (isWaiting && e !== -1 && cost > quota - held) {
    held -= e === front && excess > 0 ? frontCost : entries.cost(e)
    last = entries.time(e)
    e = entries.next(e)
  }
  if (cost > quota - held) last = index
  const newest = pushed > 0 || sum === 0 ? index : cells[offset + 1]!

  out.allowed = allowed
  out.at = Math.max(now, index * grain)
  out.retry = allowed ? 0 : !isWaiting ? Infinity : (last + life) * grain - now
  out.remaining = Math.max(0, quota - kept)
  out.reset = kept > 0 ? (newest + life) * grain - now : 0
  out.delay = 0
  out.charged = cost
  out.persist = persist
  out.next[0] = kept
  out.next[1] = newest
  writeEdit(out.edit, drop, excess > 0 ? front : -1, frontCost, index, pushed)
}

const adjust: Algorithm<Name>['adjust'] = (params, cells, offset, now, chargedAt, units, out, entries) => {
  const { index, sum, drop, first } = advance(params, cells, offset, now, entries)
  const charged = Math.floor(chargedAt / params.grain)

  // The entry it was charged to, the last one before that holds anything, and how many there are in all.
  let found = -1
  let before = 0
  let count = drop
  for (let e = first; units < 0 && e !== -1; e = entries.next(e)) {
    if (entries.cost(e) > 0 && entries.time(e) === charged) found = e
    else if (entries.cost(e) > 0 && found === -1) before = entries.time(e)
    count++
  }

  const cost = found === -1 ? 0 : entries.cost(found)
  const change = units < 0 ? -Math.min(-units, cost) : Math.min(units, LARGEST - sum)
  const kept = sum + change
  const isEmptied = change < 0 && cost + change === 0
  const newest = isEmptied && charged === cells[offset + 1] ? before : cells[offset + 1]!
  out.persist = change !== 0
  out.next[0] = kept
  out.next[1] = units > 0 ? index : newest
  const amended = change < 0 && kept > 0 ? found : -1
  writeEdit(out.edit, kept === 0 ? count : drop, amended, cost + change, index, Math.max(0, change))
}

const convert: Algorithm<Name>['convert'] = (params, from, cells, offset, now, out, entries) => {
  const newest = cells[offset + 1]!
  const { sum } = advance(from, cells, offset, rescale(now, params, from), entries)
  let { drop, first: e } = advanced

  // Times in another grain cannot be kept: everything becomes one entry, made now. Else the oldest makes way.
  const isSame = from.grain / from.perMs === params.grain / params.perMs
  const index = Math.floor(Math.max(now, -rescale(-newest * from.grain, from, params)) / params.grain)
  const kept = Math.min(sum, params.quota)
  let excess = isSame ? sum - kept : sum
  while (e !== -1 && excess >= entries.cost(e)) {
    excess -= entries.cost(e)
    drop++
    e = entries.next(e)
  }
  out.next[0] = kept
  out.next[1] = kept === 0 ? 0 : isSame ? newest : index
  const isAmended = excess > 0
  writeEdit(out.edit, drop, isAmended ? e : -1, isAmended ? entries.cost(e) - excess : 0, index, isSame ? 0 : kept)
}

const lua = `
local function advance(params, cells, offset, now, entries)
  local grain, life, sum = params.grain, params.life, cells[offset + 1]
  local index = max(floor(now / grain), sum > 0 and cells[offset + 2] or -huge)
  local drop, e = 0, entries.first
  while e ~= -1 do
    local cost = entries.cost(e)
    if cost ~= 0 and entries.time(e) + life > index then break end
    sum = sum - cost
    drop = drop + 1
    e = entries.next(e)
  end
  return index, sum, drop, e
end

local function step(params, cells, offset, now, cost, entries)
  local quota, grain, life = params.quota, params.grain, params.life
  local index, sum, drop, e = advance(params, cells, offset, now, entries)

  local allowed = cost == 0 or cost <= quota - sum
  local persist = not allowed and params.strict == 1
  local pushed = allowed and cost or persist and min(cost, quota) or 0
  local kept = allowed and sum + cost or persist and max(sum, quota) or sum

  local excess = sum + pushed - kept
  while excess > 0 and excess >= entries.cost(e) do
    excess = excess - entries.cost(e)
    drop = drop + 1
    e = entries.next(e)
  end
  local front = e
  local frontCost = excess > 0 and entries.cost(e) - excess or -1
  entries.edit(drop, excess > 0 and front or -1, frontCost, index, pushed)

  local retry = 0
  if not allowed and cost > quota then
    retry = huge
  elseif not allowed then
    local held, last = kept, index
    while e ~= -1 and cost > quota - held do
      held = held - (e == front and excess > 0 and frontCost or entries.cost(e))
      last = entries.time(e)
      e = entries.next(e)
    end
    if cost > quota - held then last = index end
    retry = (last + life) * grain - now
  end
  local newest = (pushed > 0 or sum == 0) and index or cells[offset + 2]
  local reset = kept > 0 and (newest + life) * grain - now or 0
  return allowed, max(now, index * grain), retry, max(0, quota - kept), reset, 0, cost, persist, kept, newest
end

local function adjust(params, cells, offset, now, chargedAt, units, entries)
  local index, sum, drop, e = advance(params, cells, offset, now, entries)
  local charged = floor(chargedAt / params.grain)

  local found, before, count = -1, 0, drop
  while units < 0 and e ~= -1 do
    if entries.cost(e) > 0 and entries.time(e) == charged then found = e
    elseif entries.cost(e) > 0 and found == -1 then before = entries.time(e) end
    count = count + 1
    e = entries.next(e)
  end

  local cost = found == -1 and 0 or entries.cost(found)
  local change = units < 0 and -min(-units, cost) or min(units, LARGEST - sum)
  local kept = sum + change
  local isEmptied = change < 0 and cost + change == 0
  local newest = isEmptied and charged == cells[offset + 2] and before or cells[offset + 2]
  entries.edit(kept == 0 and count or drop, change < 0 and kept > 0 and found or -1, cost + change, index, max(0, change))
  return change ~= 0, kept, units > 0 and index or newest
end

local function convert(params, from, cells, offset, now, entries)
  local newest = cells[offset + 2]
  local _, sum, drop, e = advance(from, cells, offset, rescale(now, params, from), entries)

  local isSame = from.grain / from.perMs == params.grain / params.perMs
  local index = floor(max(now, -rescale(-newest * from.grain, from, params)) / params.grain)
  local kept = min(sum, params.quota)
  local excess = isSame and sum - kept or sum
  while e ~= -1 and excess >= entries.cost(e) do
    excess = excess - entries.cost(e)
    drop = drop + 1
    e = entries.next(e)
  end
  entries.edit(drop, excess > 0 and e or -1, excess > 0 and entries.cost(e) - excess or 0, index, isSame and 0 or kept)
  return kept, kept == 0 and 0 or isSame and newest or index
end

return { step = step, adjust = adjust, convert = convert }
`

/** What a log of requests is made of, whatever its grain. */
export const log: Omit<Algorithm<Name>, 'name' | 'options' | 'deriveParameters'> = {
  parameters: ['quota', 'grain', 'life'],
  cells: [{ name: 'sum' }, { name: 'newest', ticks: 'grain', newest: true }],
  initialState: [0, 0],
  entries: true,
  entryTicks: 'grain',
  maxValue: (params) => params.quota,
  step,
  adjust,
  convert,
  lua,
}

/** Sliding window log: never more than `quota` in any window, at the price of remembering each request. */
export const slidingWindowLog: Algorithm<Name> = {
  ...log,
  name: 'slidingWindowLog',
  options: [],
  deriveParameters: (input) => ({ quota: input.quota, grain: 1, life: input.window }),
}
