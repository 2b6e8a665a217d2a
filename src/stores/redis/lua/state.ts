/** The state of one limit in Lua: how a field's value is read, whoever wrote it, and how it is written. */
export const luaState: string = String.raw`
-- A value that begins so has a lock before everything else.
local LOCKED = '\1'

local function parse(trial, value)
  trial.value, trial.lock, trial.wrote, trial.restAt = value, 0, '', 1
  if not value then return end
  if string.byte(value) == 1 then trial.lock, trial.restAt = unpacked('<d', value, 2) end
  local stop = find(value, '\0', trial.restAt, true)
  trial.wrote = sub(value, trial.restAt, stop - 1)
  trial.cellsAt = stop + 1
end

local function readCells(trial, kind)
  return { unpacked(kind.format, trial.value, trial.cellsAt) }
end

-- Whether one of two kinds takes over what the other wrote.
local function akin(one, other)
  return one == other or one and one.compatibleWith and one.compatibleWith == other.compatibleWith
end

-- What another configuration wrote, carried over where the algorithm is the same.
local function inherit(trial, kind, p)
  local oldKind, oldP = known(trial.wrote)
  trial.strays = not oldKind
  if not oldKind then return end
  local s = readCells(trial, oldKind)
  local E = oldKind.entries and lists.aim(lists.newEntries(), trial.key, trial.field, s, oldKind.cells, trial.value)
  trial.old = E
  if not akin(oldKind, kind) then return end
  local C = E and lists.copyOf(E)
  local out = trial.out
  if C then lists.clearEdit(out) end
  kind.twin.convert(p, oldP, s, trial.tick, out, C)
  for i = 1, kind.cells do trial.s[i] = out.next[i] end
  if not C then return end
  lists.editCopy(C, out.edit)
  trial.E, trial.copied = C, true
end

-- Reads a state as a limit of kind and p sees it: as it stands, converted, or blank.
local function read(trial, signature, kind, p)
  trial.kind, trial.p = kind, p
  trial.tick = p.perMs == 1000 and now or floor(now / 1000)
  trial.old, trial.copied, trial.strays = nil, false, false
  local same = trial.wrote == signature
  trial.s = same and readCells(trial, kind) or { unpack(kind.blank) }
  if kind.entries then
    if not trial.own then trial.own = lists.newEntries() end
    if not trial.out.edit then lists.clearEdit(trial.out) end
    trial.E = lists.aim(trial.own, trial.key, trial.field, trial.s, kind.cells, same and trial.value)
  end
  if not same and trial.wrote ~= '' then inherit(trial, kind, p) end
end

-- Entries of an algorithm that this script does not know: by the names of their fields.
local function dropStrays(gone, trial)
  local start = trial.field .. '\0'
  for _, field in ipairs(call('HKEYS', trial.key)) do
    if sub(field, 1, #start) == start then gone[#gone + 1] = field end
  end
end

-- A lock that is over is kept for as long as a clock may step back.
local function locked(trial)
  return trial.lock <= now - slack * 1000000 and '' or LOCKED .. pack('<d', trial.lock)
end

-- Notes what is to be written for a state that is kept.
local function keep(trial, signature, set, gone)
  local kind, next, open = trial.kind, trial.out.next, ''
  if trial.strays then dropStrays(gone, trial)
  elseif trial.old and not trial.copied then lists.dropAll(gone, trial.old) end
  if kind.entries then
    local E = trial.E
    if trial.copied then E, open = lists.replaceEntries(trial, set, gone)
    else open = lists.editEntries(E, trial.out.edit, set, #set, gone) end
    lists.describe(E, next, kind.cells)
  end
  -- For how long it is kept is looked up the next time.
  next[kind.numbers] = 0
  set[#set + 1] = trial.field
  set[#set + 1] = locked(trial) .. signature .. '\0' .. pack(kind.format, unpack(next, 1, kind.numbers)) .. open
end

-- Notes a lock alone.
local function keepLock(trial, set)
  local value = trial.value
  set[#set + 1] = trial.field
  set[#set + 1] = locked(trial) .. (value and sub(value, trial.restAt) or '\0')
end
`
