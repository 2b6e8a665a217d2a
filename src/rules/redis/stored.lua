-- Writes and reads the document of one name, which is a hash. The first argument says what to do.

local key = KEYS[1]

-- The most documents that are kept in addition to the current one, and the most bytes of their texts. One text can have as many bytes.
local most_kept = 49
local most_bytes = 1048576
local parts = { 'writer', 'pushedAt', 'format', 'restores', 'text' }

local function fields_of(version)
  local fields = {}
  for i, part in ipairs(parts) do fields[i] = version .. ':' .. part end
  return fields
end

-- Keeps the document that is replaced, and deletes the oldest documents if there are too many.
local function keep(version)
  local values = redis.call('HMGET', key, unpack(parts))
  for i, field in ipairs(fields_of(version)) do redis.call('HSET', key, field, values[i] or '') end
  local bytes = 0
  for back = 0, most_kept do
    local fields = fields_of(string.format('%.0f', version - back))
    bytes = bytes + redis.call('HSTRLEN', key, fields[#fields])
    if back == most_kept or bytes > most_bytes then redis.call('HDEL', key, unpack(fields)) end
  end
end

-- Writes a document if the current version is the expected one. '' expects any version.
local function push(expected, writer, format, text, json, restores)
  local held = redis.call('HMGET', key, 'version', 'writer', 'pushedAt')
  local version = held[1] or '0'
  if expected ~= '' and expected ~= version then return { 'other', version, held[2] or '', held[3] or '0' } end
  if held[1] then keep(version) end
  local time = redis.call('TIME')
  local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  local following = string.format('%.0f', version + 1)
  redis.call('HSET', key, 'version', following, 'writer', writer, 'pushedAt', now, 'format', format, 'text', text,
    'restores', restores, 'json', json, 'identity', following .. '-' .. now .. '-' .. redis.sha1hex(text))
  -- If the user may not publish, processes find the document when they poll.
  redis.pcall('PUBLISH', key, following)
  return { 'pushed', following, writer, now, restores }
end

-- Reads a document for a process, unless the process has it already, or it has too many bytes.
local function read(identity, most)
  local held = redis.call('HMGET', key, 'version', 'identity')
  if not held[1] then return { 'none' } end
  if held[2] == identity then return { 'same' } end
  if redis.call('HSTRLEN', key, 'json') > tonumber(most) then return { 'large', held[1], held[2] } end
  return { 'document', held[1], held[2], redis.call('HGET', key, 'json') }
end

-- Returns the current document and at most `earlier` kept ones ('' for all), the newest first: the version of each, and its parts.
local function history(earlier)
  local current = redis.call('HGET', key, 'version')
  local all = {}
  for back = 0, current and (tonumber(earlier) or most_kept) or -1 do
    local version = string.format('%.0f', current - back)
    local values = redis.call('HMGET', key, unpack(back == 0 and parts or fields_of(version)))
    if values[#parts] then
      table.insert(all, version)
      for i = 1, #parts do table.insert(all, values[i] or '') end
    end
  end
  return all
end

local actions = { push = push, read = read, history = history }
return actions[ARGV[1]](unpack(ARGV, 2))
