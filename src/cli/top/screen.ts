import { emitKeypressEvents } from 'node:readline'
import { charactersOf, type Outcome } from '../print.ts'

/** The second screen of a terminal. It is left, and the cursor shown, in every case. */
interface Screen {
  /** Replaces what the terminal shows. */
  show(lines: readonly string[]): void
  /** Resolves after so many milliseconds, or when the user quits or changes the size. True if the user quits. */
  pause(ms: number): Promise<boolean>
  close(): void
}

const ENTER = '\u001b[?1049h\u001b[?25l'
const LEAVE = '\u001b[?25h\u001b[?1049l'
const HOME = '\u001b[H'
const CLEAR_LINE = '\u001b[K'
const CLEAR_BELOW = '\u001b[J'

/** Opens the screen. `q`, Escape, Ctrl-C, SIGINT, SIGTERM and SIGHUP quit. */
function openScreen(input: NodeJS.ReadStream, output: NodeJS.WriteStream): Screen {
  let isQuit = false
  let wake = (): void => {}
  const quit = (): void => {
    isQuit = true
    wake()
  }
  const redraw = (): void => wake()
  const pressed = (_text: string | undefined, key: { name?: string; ctrl?: boolean }): void => {
    if (key.name === 'q' || key.name === 'escape' || (key.ctrl === true && key.name === 'c')) quit()
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  emitKeypressEvents(input)
  input.setRawMode(true).on('keypress', pressed).resume()
  for (const signal of signals) process.on(signal, quit)
  output.on('resize', redraw).write(ENTER)

  return {
    show: (lines) =>
      void output.write(`${HOME}${lines.map((line) => `${line}${CLEAR_LINE}`).join('\n')}${CLEAR_BELOW}`),
    async pause(ms) {
      if (!isQuit) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, ms)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      return isQuit
    },
    close() {
      input.off('keypress', pressed).setRawMode(false).pause()
      for (const signal of signals) process.off(signal, quit)
      output.off('resize', redraw).write(LEAVE)
    },
  }
}

export interface Page {
  readonly title: string
  /** Returns lines of at most so many characters. */
  lines(columns: number): readonly string[]
}

export async function live(interval: number, refresh: () => Promise<Page>): Promise<Outcome> {
  const screen = openScreen(process.stdin, process.stdout)
  try {
    for (let isQuit = false; !isQuit; isQuit = await screen.pause(interval)) {
      const { title, lines } = await refresh()
      // A terminal that does not know its size says 0.
      const [columns, height] = [process.stdout.columns || 80, process.stdout.rows || 24]
      const head = cut(`sluice top – ${new Date().toLocaleTimeString('en-GB')} – ${title} – q quits`, columns)
      screen.show([head, '', ...lines(columns).slice(0, Math.max(1, height - 3))])
    }
  } finally {
    screen.close()
  }
  return { text: '' }
}

export function cut(line: string, width: number): string {
  const characters = charactersOf(line.trimEnd())
  return characters.length <= width ? characters.join('') : `${characters.slice(0, width - 1).join('')}…`
}
