/** Resets: the state of a key is deleted, and what was charged before is not refunded. */
export const luaReset: string = String.raw`
-- Notes for each limit of a key, in place of its state, until when that would have counted: what was charged until now is not refunded.
-- Returns whether there was a state.
local function reset(group)
  openRecords(group)
  local notes, isHeld = {}, false
  for _, record in ipairs(group.records) do
    local ending = max(record.change, now + lifeOf(group, record, 0))
    isHeld = isHeld or record.signature ~= '' or record.lock > now
    if ending > now then
      notes[#notes + 1] = {
        name = record.name, width = 0, isLog = false, signature = '', cells = {}, lock = 0, change = ending, changedAt = now, denials = 0,
      }
      group.lasting = max(group.lasting, (ending - now) / 1000000)
    end
  end
  group.records = notes
  if #notes > 0 then setRecords(group, 0) end
  return isHeld
end

-- Deletes the state of a key, also one that cannot be read. Returns 1 if there was one. Only the first write can fail for lack of memory,
-- and no server refuses to delete.
local function forget(key)
  local group = { key = key, first = 1, last = 0, attempts = {}, cells = { 0 }, set = {}, gone = {}, lasting = 0 }
  local isRead, isHeld = pcall(function()
    group.value = call('HGET', key, 'states')
    return reset(group)
  end)
  local deleted = call('DEL', key)
  if not isRead then return deleted end
  if #group.set > 0 then writeFields(group, group.lasting + 2 * slack) end
  return isHeld and 1 or 0
end
`
