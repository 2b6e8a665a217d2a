// What looks for mistakes, and says them. It is loaded when it is needed, and imports nothing from outside: see `warn-later.ts`.

export { AlternationWatch } from './alternation.ts'
export { texts } from './texts.ts'
export { watchThreads } from './threads.ts'
