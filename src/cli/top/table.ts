import { roughDuration } from '../../util/duration.ts'
import { escaped } from '../print.ts'
import { type Row, shareOf } from './ranking.ts'

const HEADINGS = ['used', '', 'of', 'key', 'limit', 'limiter', 'resets in', 'locked for']
const KEY = 3
/** The widest key in a terminal. */
const KEY_WIDTH = 40
const BAR = 10

/** Returns the rows as lines of at most `width` characters. Control characters are escaped. */
export function tableOf(rows: readonly Row[], width: number): string[] {
  const cells = [HEADINGS, ...rows.map((row) => cellsOf(row, width))]
  const widths = HEADINGS.map((_, column) =>
    cells.reduce((most, line) => Math.max(most, charactersOf(line[column]!).length), 0),
  )
  return cells.map((line) => cut(line.map((cell, column) => padded(cell, widths[column]!, column)).join('  '), width))
}

/** Cuts a line at the edge of the terminal. */
export function cut(line: string, width: number): string {
  const characters = charactersOf(line.trimEnd())
  return characters.length <= width ? characters.join('') : `${characters.slice(0, width - 1).join('')}…`
}

function cellsOf(row: Row, width: number): string[] {
  const { used, capacity, limit, limiter, resetAfter, lockedFor, key } = row
  const free = resetAfter === undefined ? '?' : roughDuration(Math.max(resetAfter, lockedFor))
  const locked = lockedFor > 0 ? roughDuration(lockedFor) : '–'
  const texts = [numberText(used), bar(shareOf(row)), numberText(capacity), key, limit, limiter, free, locked]
  const cells = texts.map((text) => escaped(text).replaceAll('\n', '\\n'))
  if (width < Infinity) cells[KEY] = cut(cells[KEY]!, KEY_WIDTH)
  return cells
}

function numberText(value: number | undefined): string {
  return value === undefined ? '?' : value.toLocaleString('en')
}

function bar(share: number): string {
  const full = Math.ceil(share * BAR)
  return '█'.repeat(full) + '░'.repeat(BAR - full)
}

function padded(cell: string, width: number, column: number): string {
  const space = ' '.repeat(width - charactersOf(cell).length)
  return column === 0 ? space + cell : cell + space
}

/** Code points: a cut between two halves of a character would print neither. */
function charactersOf(text: string): string[] {
  return Array.from(text)
}
