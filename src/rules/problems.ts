import { SluiceError } from '../util/errors.ts'
import type { RulesProblem } from './document.ts'

/** The most mistakes that are reported. */
const MOST = 100
/** The most characters of a message. */
const LONGEST = 500

/** Thrown when there are enough mistakes, so that a check of a large document ends. */
export class EnoughProblems extends Error {}

/** Collects the mistakes of a document: at most a hundred, and one more entry that says that there are more. */
export class Problems {
  readonly #list: RulesProblem[] = []

  get list(): readonly RulesProblem[] {
    return this.#list
  }

  /** Throws `EnoughProblems` for the first mistake beyond the most. */
  add(problem: RulesProblem): void {
    if (this.#list.length >= MOST) {
      this.#list.push({ path: '', message: `and more: the first ${MOST} mistakes are listed` })
      throw new EnoughProblems()
    }
    const { message } = problem
    this.#list.push(message.length > LONGEST ? { ...problem, message: `${message.slice(0, LONGEST)}…` } : problem)
  }
}

/** Runs a check that adds mistakes, and returns what it returns; `undefined` if there were too many to go on. */
export function untilEnough<Result>(check: () => Result): Result | undefined {
  try {
    return check()
  } catch (error) {
    if (error instanceof EnoughProblems) return undefined
    throw error
  }
}

/** Adds the name of the file to mistakes. */
export function inFile(file: string, problems: readonly RulesProblem[]): readonly RulesProblem[] {
  return Array.from(problems, (each) => ({ ...each, file }))
}

/** Writes a mistake on one line: where it is, such as `rules.yaml:12: policies[0].key`, and what it is. */
export function problemText({ path, message, file, line, column }: RulesProblem): string {
  const position = column === undefined ? `${line}` : `${line}:${column}`
  const at = line === undefined ? (file ?? '') : file === undefined ? `line ${position}` : `${file}:${position}`
  return [at, path, message].filter((each) => each !== '').join(': ')
}

/** Makes the error for a document with mistakes. They are its `cause`. */
export function invalidRules(problems: readonly RulesProblem[]): SluiceError {
  const count = problems.length > MOST ? `more than ${MOST} mistakes` : `${problems.length} mistakes`
  return new SluiceError(
    'INVALID_RULES',
    `The rules have ${problems.length === 1 ? 'a mistake' : count}:\n${problems.map((each) => `  ${problemText(each)}`).join('\n')}`,
    { cause: problems },
  )
}
