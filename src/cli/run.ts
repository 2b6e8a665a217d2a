import { blockCommand, unblockCommand } from './block.ts'
import type { Command } from './command.ts'
import { inspectOrReset } from './inspect.ts'
import { messageOf } from '../util/errors.ts'
import { migrateCommand } from './migrate.ts'
import { escaped, EXIT, exitCodeOf, type Io, withoutPasswords } from './print.ts'
import { replayCommand } from './replay/command.ts'
import { rulesCommand } from './rules/command.ts'
import { serveCommand } from './serve/command.ts'
import { suggestCommand } from './suggest/command.ts'
import { topCommand } from './top/command.ts'

const COMMANDS: Readonly<Record<string, Command>> = {
  block: blockCommand,
  unblock: unblockCommand,
  serve: serveCommand,
  rules: rulesCommand,
  top: topCommand,
  migrate: migrateCommand,
  replay: replayCommand,
  suggest: suggestCommand,
}

/**
 * Runs the command `sluice`, and returns its exit code. It never throws.
 * @param args the words after the name of the program
 * @param io the streams to read and write. Default: the streams of the process
 */
export async function run(args: readonly string[], io: Io = process): Promise<number> {
  const [first = '', ...rest] = args
  try {
    const command = Object.hasOwn(COMMANDS, first) ? COMMANDS[first] : undefined
    const done = await (command === undefined ? inspectOrReset(Object.keys(COMMANDS))(args, io) : command(rest, io))
    const { text, isExact = false, note = '', exitCode = EXIT.done } = done
    io.stdout.write(isExact && io.stdout.isTTY !== true ? text : escaped(text))
    io.stderr.write(escaped(note))
    return exitCode
  } catch (error) {
    // A message with the usage of a command does not need the place in the documentation.
    const text = messageOf(error).replace(/\n \(sluice\/docs\/\S+\)$/, '')
    io.stderr.write(escaped(`sluice: ${withoutPasswords(text)}\n`))
    return exitCodeOf(error)
  }
}
