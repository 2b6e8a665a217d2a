#!/usr/bin/env node
import { EXIT } from './print.ts'
import { run } from './run.ts'

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // The reader has stopped, as in `| head`. This does not change the exit code.
  if (code === 'EPIPE') return
  process.stderr.write(`sluice: the output cannot be written: ${message}\n`)
  // Without this exit, a command that writes again and again, such as `top`, would not end.
  process.exit(EXIT.failed)
})
// If the standard error cannot be written, there is no place to report it.
process.stderr.on('error', () => undefined)

process.exitCode = await run(process.argv.slice(2))
