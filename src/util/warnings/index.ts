// The code that looks for mistakes, and the texts of warnings. It is loaded on demand, and imports nothing from other folders: see
// `warn-later.ts`.

export { AlternationWatch } from './alternation.ts'
export { watchSingles } from './singles.ts'
export { texts } from './texts.ts'
export { watchThreads } from './threads.ts'
