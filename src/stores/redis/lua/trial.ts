/** One charge in Lua: read, stepped and, once all others have spoken, kept or left. The twin of `Trial` in `trial.ts`. */
export const luaTrial: string = String.raw`
local function step(trial, cost, strict)
  local p = trial.p
  local saved = p.strict
  p.strict = strict
  trial.kind.twin.step(p, trial.s, trial.tick, cost, trial.out, trial.E)
  p.strict = saved
end

local function report(trial)
  local out = trial.out
  trial.remaining, trial.reset, trial.delay = out.remaining, out.reset, out.delay
end

local function lockedOut(trial)
  step(trial, trial.cost, 0)
  trial.allowed = trial.cost == 0
  trial.retry = trial.allowed and 0 or trial.out.retry
  step(trial, 0, 0)
  report(trial)
  trial.remaining = 0
  trial.told = trial.lock - now
end

local function evaluate(trial)
  local policy = trial.policy
  read(trial, policy.signature, policy.kind, policy.p)
  trial.told, trial.locks = 0, false
  if trial.lock > now then return lockedOut(trial) end
  step(trial, trial.cost, policy.p.strict)
  trial.allowed, trial.retry = trial.out.allowed, trial.out.retry
  report(trial)
  if trial.allowed or policy.block == 0 then return end
  trial.lock, trial.locks = now + policy.block, true
  trial.told, trial.remaining = policy.block, 0
end

-- Notes for how many microseconds a hash is needed.
local function remember(hash, trial, reset)
  hash.micros = max(hash.micros, reset * (1000 / trial.p.perMs), trial.lock - now)
end

local function isCharged(trial, admitted)
  if trial.cost == 0 then return false end
  if trial.allowed then return admitted or trial.policy.strict end
  return trial.out.persist
end

local function conclude(trial, admitted, writing)
  local policy, out, hash = trial.policy, trial.out, trial.hash
  trial.at, trial.charged = 0, 0
  if isCharged(trial, admitted) then
    if not writing then return end
    keep(trial, policy.signature, hash.set, hash.gone)
    remember(hash, trial, out.reset)
    if trial.allowed and admitted then trial.at, trial.charged = out.at, out.charged end
  elseif trial.allowed and not admitted and trial.cost > 0 then
    step(trial, 0, policy.p.strict)
    report(trial)
  elseif trial.locks and writing then
    keepLock(trial, hash.set)
    remember(hash, trial, trial.reset)
  end
end

-- What wrote the state, if that is of the same algorithm and anything is left of it: what is fresh may be absent, too.
local function wroteStill(trial)
  if trial.wrote == '' then return nil end
  local kind, p = known(trial.wrote)
  if not akin(kind, trial.policy.kind) then return nil end
  read(trial, trial.wrote, kind, p)
  step(trial, 0, 0)
  if trial.out.reset > 0 then return kind, p end
end

local function adjust(trial, conservative)
  local policy, out, hash = trial.policy, trial.out, trial.hash
  local kind, p, signature = policy.kind, policy.p, policy.signature
  local wroteKind, wroteP = wroteStill(trial)
  if wroteKind then kind, p, signature = wroteKind, wroteP, trial.wrote
  elseif trial.cost < 0 then return end
  read(trial, signature, kind, p)
  if kind.entries then lists.clearEdit(out) end
  p.conservative = conservative and 1 or 0
  kind.twin.adjust(p, trial.s, trial.tick, rescale(trial.at, policy.p, p), trial.cost, out, trial.E)
  if not out.persist then return end
  keep(trial, signature, hash.set, hash.gone)
  trial.s = { unpack(out.next, 1, kind.cells) }
  step(trial, 0, 0)
  remember(hash, trial, out.reset)
end
`
