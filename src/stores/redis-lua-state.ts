/** The state of one limit in Lua: how a field's value is read, whoever wrote it, and how it is written. */
export const luaState: string = String.raw`
local UNLOCKED = '\0\0\0\0\0\0\0\0'

local function parse(trial, value)
  trial.value, trial.lock, trial.wrote = value, 0, ''
  if not value then return end
  trial.lock = unpacked('<d', value)
  local stop = find(value, '\0', 9, true)
  trial.wrote = sub(value, 9, stop - 1)
  trial.cellsAt = stop + 1
end

-- The kind and the parameters that a signature names.
local function known(signature)
  local values = {}
  for word in string.gmatch(signature, '[^,]+') do values[#values + 1] = word end
  local kind = kindNamed(values[1])
  if not kind then return nil end
  local p = { strict = 0, perMs = tonumber(values[2]) }
  for i, name in ipairs(kind.parameters) do p[name] = tonumber(values[i + 2]) end
  return kind, p
end

local function clearEdit(out)
  out.edit = { drop = 0, amend = -1, amendCost = 0, pushTime = 0, pushCost = 0 }
end

local function readCells(trial, kind)
  local s = { unpacked(kind.format, trial.value, trial.cellsAt) }
  return s, s[kind.cells + 1]
end

-- What another configuration wrote, carried over where the algorithm is the same.
local function inherit(trial, kind, p)
  local oldKind, oldP = known(trial.wrote)
  trial.strays = not oldKind
  if not oldKind then return end
  local s, at = readCells(trial, oldKind)
  local E = oldKind.entries and aim(newEntries(), trial, unpacked('<dd', trial.value, at))
  trial.old = E
  if oldKind ~= kind then return end
  local C = E and copyOf(E)
  local out = trial.out
  clearEdit(out)
  kind.twin.convert(p, oldP, s, trial.tick, out, C)
  for i = 1, kind.cells do trial.s[i] = out.next[i] end
  if not C then return end
  editCopy(C, out.edit)
  trial.E, trial.copied = C, true
end

-- Reads a state as a limit of kind and p sees it: as it stands, converted, or blank.
local function read(trial, signature, kind, p)
  trial.kind, trial.p = kind, p
  trial.tick = p.perMs == 1000 and now or floor(now / 1000)
  trial.old, trial.copied, trial.strays = nil, false, false
  local same = trial.wrote == signature
  local at
  if same then trial.s, at = readCells(trial, kind) else trial.s = { unpack(kind.blank) } end
  if kind.entries then
    if not trial.own then
      trial.own = newEntries()
      clearEdit(trial.out)
    end
    if same then aim(trial.own, trial, unpacked('<dd', trial.value, at)) else aim(trial.own, trial, 0, 0) end
    trial.E = trial.own
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

local function locked(trial)
  return trial.lock == 0 and UNLOCKED or pack('<d', trial.lock)
end

-- Notes what is to be written for a state that is kept.
local function keep(trial, signature, set, gone)
  local kind, out = trial.kind, trial.out
  local value = locked(trial) .. signature .. '\0' .. pack(kind.format, unpack(out.next, 1, kind.cells))
  if trial.strays then dropStrays(gone, trial)
  elseif trial.old and not trial.copied then dropAll(gone, trial.old) end
  if kind.entries then
    local edited = trial.copied and replaceEntries or editEntries
    value = value .. pack('<dd', edited(trial, set, gone))
  end
  set[#set + 1] = trial.field
  set[#set + 1] = value
end

-- Notes a lock alone.
local function keepLock(trial, set)
  local value = trial.value
  set[#set + 1] = trial.field
  set[#set + 1] = locked(trial) .. (value and sub(value, 9) or '\0')
end
`
