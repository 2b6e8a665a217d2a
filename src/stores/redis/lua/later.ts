import { luaPrelude } from '../../../algorithms/arithmetic.ts'
import { luaNames } from './head.ts'

/**
 * Functions in a Lua table of a name, which are made when `make<Name>()` is first called: Redis makes anew for each call whatever
 * a script makes, and a function takes as long as a good part of a step, all the longer the more names it has from outside.
 * Hence it has the short ones of its own.
 */
export function luaLater(name: string, functions: string): string {
  return `
local ${name}
local function make${name[0]!.toUpperCase()}${name.slice(1)}()
  if not ${name} then
    ${name} = {};
    (function()
${luaNames}${luaPrelude}${functions}
    end)()
  end
  return ${name}
end
`
}
