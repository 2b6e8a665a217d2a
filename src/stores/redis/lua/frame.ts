import { luaLater } from './later.ts'

/**
 * What comes last: `alone` decides what nearly every call asks, and `general` whatever is asked. A transaction that fails leaves
 * the others alone.
 */
export function luaFrame(alone: string, general: string): string {
  return `
-- The transaction that is decided, in its run.
local turn = 0
${luaLater('general', general)}${alone}
while true do
  local done, failure = pcall(work)
  if done then return reply end
  -- No transaction's fault: arguments that cannot be read.
  if turn == 0 then return failure end
  makeGeneral().sayFailure(failure)
end
`
}
