/**
 * Which records a key keeps. Names of limits may come from user data, so records in which nothing counts any longer are dropped, and a key
 * has a most number of names.
 */
export const luaNames: string = String.raw`
local function tickOf(params)
  return params.perMs == 1000 and now or millis
end

local noEntries = { edit = function() end }
function noEntries.costUntil() return 0 end
function noEntries.timeOf() return -huge end
noEntries.costAt, noEntries.beforeNewest = noEntries.costUntil, noEntries.timeOf

-- The microseconds for which what a limit wrote counted, as seen so many microseconds ago. Of an algorithm that is not known here, it may
-- be all that the key is kept for. After a reset there is no state.
local function lifeOf(group, record, ago)
  if record.signature == '' then return 0 end
  local kind, cells = kindOf(record.signature), record.cells
  if not kind then return max(0, call('PTTL', group.key)) * 1000 end
  if record.isLog then
    local value = call('HGET', group.key, 'log:' .. record.name)
    cells = value and { unpacked(rep('d', record.width), value) } or kind.blank
  end
  local params = parametersOf(kind, record.signature, '')
  local micros = 1000 / params.perMs
  local _, _, _, _, reset = twinOf(kind).step(params, cells, 0, tickOf(params) - ago / micros, 0, noEntries)
  return reset * micros
end

-- True while anything in a record counts, for any clock.
local function counts(group, record)
  local ago = slack * 1000000
  return record.lock > now - ago or record.change > now - ago
    or record.denials > 0 and record.denialsUntil > now - ago or lifeOf(group, record, ago) > 0
end

-- Notes the fields of logs, whatever wrote them.
local function dropLogs(group, names)
  local gone = group.gone
  for _, field in ipairs(call('HKEYS', group.key)) do
    local name = match(field, '^log:([^%z]*)')
    if name and names[name] then gone[#gone + 1] = field end
  end
end

-- Drops the records of other limits in which nothing counts. The fields of their logs are noted.
local function dropExpired(group)
  local kept, own = {}, {}
  for i = group.first, group.last do own[group.attempts[i].name] = true end
  for _, record in ipairs(group.records) do
    if own[record.name] or counts(group, record) then kept[#kept + 1] = record
    elseif record.isLog then
      group.goneLogs = group.goneLogs or {}
      group.goneLogs[record.name] = true
    end
  end
  group.records = kept
end

-- The most limits of a key to which a new name is added. All of them are read and written together, at most 15 numbers for each, and Lua
-- passes less than 8,000 at once.
local MOST_NAMES = 256

-- Makes room for the names that a key does not have. Fails where there is none.
local function makeRoom(group)
  if #group.records < MOST_NAMES then return end
  dropExpired(group)
  if #group.records >= MOST_NAMES then error({ err = 'SLUICE_MANY_LIMITS' }) end
end
`
