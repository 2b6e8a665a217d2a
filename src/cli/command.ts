import { parseArgs, type ParseArgsConfig } from 'node:util'
import { PREFIX } from '../stores/redis/keys.ts'
import { shown, SluiceError } from '../util/errors.ts'
import { hintOf, nearest, refuse } from '../util/validate.ts'
import type { Io, Outcome } from './print.ts'

type Options = NonNullable<ParseArgsConfig['options']>

export type ValuesOf<Given extends Options> = ReturnType<typeof parseArgs<{ options: Given }>>['values']

/** A command. It receives the words after its name. */
export type Command = (args: readonly string[], io: Io) => Promise<Outcome>

/** Thrown for a wrong call. The command adds its usage. */
export class Misuse extends Error {}

/**
 * Makes a command. With `--help`, it prints its usage. If `work` throws `Misuse`, it throws `INVALID_OPTION` with its usage.
 * @param work receives the words, the values of the options, and the names of the options that are given
 */
export function command<const Given extends Options>(
  usage: string,
  options: Given,
  work: (
    words: readonly string[],
    values: ValuesOf<Given>,
    io: Io,
    named: readonly string[],
  ) => Promise<Outcome> | Outcome,
): Command {
  return async function runCommand(args, io) {
    const { values, positionals, tokens } = parseArgs({
      args: [...args],
      allowPositionals: true,
      tokens: true,
      options: { ...options, help: { type: 'boolean', short: 'h' } },
    })
    const { help, ...own } = values as { readonly help?: boolean }
    if (help === true) return { text: usage }
    const named = tokens.flatMap((each) => (each.kind === 'option' ? [each.name] : []))
    try {
      return await work(positionals, own as ValuesOf<Given>, io, named)
    } catch (error) {
      if (!(error instanceof Misuse)) throw error
      throw new SluiceError('INVALID_OPTION', `${error.message}\n\n${usage}`)
    }
  }
}

/** Returns the error for a name that is not among the known commands. */
export function unknownCommand(name: string, known: readonly string[]): Misuse {
  if (name === '') return new Misuse('expected a command')
  return new Misuse(`there is no command ${shown(name)}${hintOf(nearest(name, known))}`)
}

/** Returns the number of an option. Throws `INVALID_OPTION` if it is not a whole number from `least` to `most`. */
export function numberIn(option: string, text: string, least: number, most: number): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && number >= least && number <= most) return number
  return refuse(option, `a whole number from ${least} to ${most}`, text)
}

/** The options of every command that reads keys. */
export const SOURCE_OPTIONS = {
  prefix: { type: 'string', default: PREFIX as string },
  json: { type: 'boolean', default: false },
  client: { type: 'string' },
  table: { type: 'string' },
  schema: { type: 'string' },
} as const

/** The lines of these options in the usage, except for `--json`. */
export const SOURCE_USAGE: string = `--prefix <text>    the prefix of keys in Redis (default: ${PREFIX})
  --table <name>     the table in PostgreSQL, MySQL or SQLite (default: sluice)
  --schema <name>    its schema
  --client <name>    ioredis, iovalkey or redis (default: the first that is installed)`
