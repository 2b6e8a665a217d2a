-- Writes and reads the document of one name, which is a hash. The first argument says what to do.

local key = KEYS[1]

-- Writes a document, unless another version than the expected one is there. '' expects any.
local function push(expected, writer, format, text, json)
  local held = redis.call('HMGET', key, 'version', 'writer', 'pushedAt')
  local version = held[1] or '0'
  if expected ~= '' and expected ~= version then return { 'other', version, held[2] or '', held[3] or '0' } end
  local time = redis.call('TIME')
  local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
  local following = string.format('%.0f', version + 1)
  redis.call('HSET', key, 'version', following, 'writer', writer, 'pushedAt', now, 'format', format, 'text', text,
    'json', json, 'identity', following .. '-' .. now .. '-' .. redis.sha1hex(text))
  -- Without the permission to publish, processes find it when they poll.
  redis.pcall('PUBLISH', key, following)
  return { 'pushed', following, writer, now }
end

-- Reads a document for a process, unless the process has it or it has more bytes than the most.
local function read(identity, most)
  local held = redis.call('HMGET', key, 'version', 'identity')
  if not held[1] then return { 'none' } end
  if held[2] == identity then return { 'same' } end
  if redis.call('HSTRLEN', key, 'json') > tonumber(most) then return { 'large', held[1], held[2] } end
  return { 'document', held[1], held[2], redis.call('HGET', key, 'json') }
end

local function pull()
  return redis.call('HMGET', key, 'version', 'writer', 'pushedAt', 'format', 'text')
end

local actions = { push = push, read = read, pull = pull }
return actions[ARGV[1]](unpack(ARGV, 2))
