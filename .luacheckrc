-- What Redis and Valkey define for scripts and functions, and nothing else.
local function fields(...)
  local named = {}
  for _, name in ipairs({ ... }) do named[name] = {} end
  return { fields = named }
end

stds.redis = {
  read_globals = {
    'KEYS', 'ARGV', 'redis', 'server', 'bit', 'cjson', 'cmsgpack', 'struct',
    'assert', 'error', 'getmetatable', 'ipairs', 'next', 'pairs', 'pcall', 'rawequal', 'rawget', 'rawset', 'select', 'setmetatable',
    'tonumber', 'tostring', 'type', 'unpack', 'xpcall',
    math = fields(
      'abs', 'acos', 'asin', 'atan', 'atan2', 'ceil', 'cos', 'cosh', 'deg', 'exp', 'floor', 'fmod', 'frexp', 'huge', 'ldexp', 'log',
      'log10', 'max', 'min', 'modf', 'pi', 'pow', 'rad', 'random', 'randomseed', 'sin', 'sinh', 'sqrt', 'tan', 'tanh'
    ),
    string = fields(
      'byte', 'char', 'find', 'format', 'gmatch', 'gsub', 'len', 'lower', 'match', 'rep', 'reverse', 'sub', 'upper'
    ),
    table = fields('concat', 'insert', 'maxn', 'remove', 'sort'),
  },
}
std = 'redis'

-- The functions of all algorithms have the same arguments.
unused_args = false
max_line_length = false
ignore = {
  -- A local name that hides one of another file: the program is one text.
  '431',
  -- `not (x <= y)` is also true for what is not a number.
  '581',
}
