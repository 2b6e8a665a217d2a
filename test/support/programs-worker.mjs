// Runs programs one after the other, as its parent asks: see `Runner` in programs.ts. They share the modules that they load.
import { createRequire } from 'node:module'
import { Server } from 'node:net'
import { pathToFileURL } from 'node:url'

const require = createRequire(import.meta.url)
let [output, errors] = ['', '']
/** Of the program that runs: `loads`, then `done` with its own statements. A server of it `listens`. */
let state = 'none'
const servers = new Set()
/** Of a server: whether its clock `stops` or `runs` once it listens. */
let clock

const { hrtime } = process
/** Stops the clock, so that the responses in a transcript do not depend on the speed of the machine. */
function stopClock() {
  const [now, time] = [performance.now(), hrtime()]
  performance.now = () => now
  process.hrtime = Object.assign((since = [0, 0]) => [time[0] - since[0], time[1] - since[1]], hrtime)
}

function continueClock() {
  delete performance.now
  process.hrtime = hrtime
}

/** The servers of a page listen on a free port and say which. */
const { listen } = Server.prototype
Server.prototype.listen = function listenAnywhere(...args) {
  if (clock === undefined) return listen.apply(this, args)
  if (clock === 'stops') stopClock()
  servers.add(this)
  this.once('listening', () => {
    if (state === 'listens') return
    state = 'listens'
    process.channel.ref()
    process.send({ port: this.address().port })
  })
  return listen.call(
    this,
    { host: '127.0.0.1', port: 0 },
    args.find((each) => typeof each === 'function'),
  )
}

function collector(collect) {
  return (chunk, ...rest) => {
    collect(String(chunk))
    rest.find((each) => typeof each === 'function')?.()
    return true
  }
}
process.stdout.write = collector((text) => (output += text))
process.stderr.write = collector((text) => (errors += text))
process.removeAllListeners('warning')
process.on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') errors += `${warning.stack}\n`
})
process.on('uncaughtException', (error) => (errors += `${error?.stack ?? error}\n`))

function report() {
  process.channel.ref()
  state = 'none'
  const exitCode = process.exitCode ?? 0
  process.exitCode = undefined
  process.send({ output, errors, exitCode })
}

/** A program has ended when nothing keeps the process alive. */
process.on('beforeExit', () => {
  if (state === 'none') return
  if (state === 'loads') errors += 'The program waits for something that never happens\n'
  report()
})

process.on('message', (asked) => {
  if (asked.file === undefined) return endServers()
  ;[output, errors, state, clock] = ['', '', 'loads', asked.clock]
  process.channel.unref()
  load(asked.file)
    .catch((/** @type {unknown} */ error) => (errors += `${error?.stack ?? error}\n`))
    .finally(() => {
      if (state === 'loads') state = 'done'
    })
})
process.on('disconnect', () => process.exit())

function endServers() {
  for (const server of servers) {
    server.closeAllConnections?.()
    server.close()
  }
  servers.clear()
  continueClock()
  report()
}

/** Loads a file, also one that has run before. */
async function load(file) {
  if (file.endsWith('.cjs')) {
    delete require.cache[file]
    require(file)
  } else await import(`${pathToFileURL(file).href}?${performance.now()}`)
}
