-- Keeps small texts of processes in one hash, so that no key has to be searched. Each text has an end, and two fields, so that the
-- ends are read without the texts. Texts that have ended are deleted.

local key, action = KEYS[1], ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- Returns when a text was written, and its end.
local function timesOf(name)
  local at, ending = string.match(redis.call('HGET', key, '@' .. name) or '', '^(%d+) (%d+)$')
  return tonumber(at) or 0, tonumber(ending) or 0
end

local function delete(name)
  redis.call('HDEL', key, '@' .. name, '=' .. name)
end

-- Returns names of texts that have not ended, up to a given number.
local function names(most)
  local found = {}
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local name = string.match(field, '^@(.*)$')
    if #found < most and name and select(2, timesOf(name)) > now then found[#found + 1] = name end
  end
  return found
end

local function keep(name, ms, text)
  for _, field in ipairs(redis.call('HKEYS', key)) do
    local other = string.match(field, '^[@=](.*)$')
    if not other then redis.call('HDEL', key, field) elseif select(2, timesOf(other)) <= now then delete(other) end
  end
  if tonumber(ms) == 0 then return delete(name) end
  redis.call('HSET', key, '@' .. name, string.format('%.0f %.0f', now, now + ms), '=' .. name, text)
  if redis.call('PTTL', key) < tonumber(ms) then redis.call('PEXPIRE', key, ms) end
end

-- Replies with the name, the age and the content of each text. The content is empty if it has too many bytes.
local function read(most, bytes, name)
  local reply = {}
  for _, each in ipairs(name and { name } or names(tonumber(most))) do
    local at, ending = timesOf(each)
    local text = redis.call('HGET', key, '=' .. each)
    if ending > now and text then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = each, string.format('%.0f', now - at), #text > tonumber(bytes) and '' or text
    end
  end
  return reply
end

local actions = { keep = keep, read = read }
return actions[action](unpack(ARGV, 2)) or {}
