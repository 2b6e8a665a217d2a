#!/usr/bin/env node
import { EXIT } from './print.ts'
import { run } from './run.ts'

process.stdout.on('error', ({ code, message }: NodeJS.ErrnoException) => {
  // Nobody reads the rest, as before `| head`. The exit code is that of the command.
  if (code === 'EPIPE') return
  process.stderr.write(`sluice: the output cannot be written: ${message}\n`)
  // A command that writes again and again, such as `top`, would not end.
  process.exit(EXIT.failed)
})
// There is no place left to say it.
process.stderr.on('error', () => undefined)

process.exitCode = await run(process.argv.slice(2))
