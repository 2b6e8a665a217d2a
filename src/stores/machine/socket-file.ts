import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import {
  type BigIntStats,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from 'node:fs'
import { createConnection, createServer, type Server, type Socket } from 'node:net'
import { hostname, tmpdir, userInfo } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { messageOf, SluiceError } from '../../util/errors.ts'
import { sha256 } from '../../util/sha256.ts'
import { refuse } from '../../util/validate.ts'

/** Bytes of the name of a socket file: macOS has room for 104 with the NUL at the end, Linux for 108. */
const LONGEST = 103
/** Bytes of what the private names of a process have in addition. */
const PRIVATE = 9
/** Attempts to connect or to bind. Another process may do the same at the same time. */
const ATTEMPTS = 20
/** Milliseconds after which the time of the file is renewed, so that programs that delete old files leave it. */
const RENEWED = 3_600_000

const isWindows = process.platform === 'win32'

/** What a process becomes: one that asks over a socket, or the one that serves. */
export type Met =
  | { readonly socket: Socket }
  | {
      readonly server: Server
      /** True if a process that has served before has not closed its store. */
      readonly wasLeft: boolean
    }

/**
 * The socket file at which the processes of a machine meet. The process that binds it first serves, and the others connect to it.
 *
 * A server listens at a private name first and then links it to the name of the file: this fails if another process was first, and nobody can see a
 * file at which nothing listens yet. When the server closes, libuv deletes the private name and not the file, which may be another server's.
 */
export class SocketFile {
  readonly path: string
  /** The inode of the file that this process has bound. */
  #id: string | undefined

  /** @param given what the user has chosen. Throws `INVALID_OPTION` for a name that is too long, and `STORE_SETUP` for a folder that others can use */
  constructor(given: string | undefined) {
    this.path = isWindows ? pipeOf(given) : fileOf(given)
    if (isWindows) return
    if (Buffer.byteLength(this.path) + PRIVATE > LONGEST)
      refuse('path', `a name so short that ${this.path} has at most ${LONGEST - PRIVATE} bytes`, given ?? this.path)
    this.#checkFolder()
  }

  /** Identifies the file that is there now; nothing for a named pipe. */
  get id(): string | undefined {
    return isWindows ? undefined : idOf(foundAt(this.path))
  }

  /** False once the file that this process has bound was deleted or replaced. Renews its time once an hour. */
  get isOurs(): boolean {
    if (isWindows) return true
    const found = foundAt(this.path)
    if (found === undefined || idOf(found) !== this.#id) return false
    if (Date.now() - Number(found.mtimeMs) > RENEWED) lutimesSync(this.path, new Date(), new Date())
    return true
  }

  /**
   * Connects to the process that serves, or becomes it. Throws `STORE_SETUP` if the file or its folder cannot be used, and another error if it may
   * succeed later.
   */
  async meet(): Promise<Met> {
    if (!isWindows) this.#checkFolder()
    for (let attempts = 0; attempts < ATTEMPTS; attempts++) {
      const found = this.id
      try {
        return { socket: await connected(this.path) }
      } catch (error) {
        const code = codeOf(error)
        // Nothing listens any more: the process has ended. A server that is stopped still accepts connections.
        const isLeft = code === 'ECONNREFUSED' && found !== undefined
        if (code !== 'ENOENT' && !isLeft) throw error
        const server = await this.#bind(isLeft ? found : undefined)
        if (server !== undefined) return { server, wasLeft: isLeft }
      }
    }
    throw new SluiceError('STORE_FAILED', `No process keeps the file ${this.path}`)
  }

  /** Binds the file in place of the server that hands its counts over. Returns nothing if the file is no longer its. */
  async replace(id: string): Promise<Server | undefined> {
    if (isWindows) return boundPipe(this.path)
    const own = this.#newName()
    const server = await listening(own)
    if (this.id === id) {
      renameSync(own, this.path)
      this.#id = this.id
      return server
    }
    server.close()
    return undefined
  }

  /** Deletes the file if it is that of this process. */
  leave(): void {
    if (!isWindows && this.isOurs) rmSync(this.path, { force: true })
    this.#id = undefined
  }

  /**
   * @param left the file of a process that has ended. It is renamed, tried once more, and deleted. If a process answers, it has bound the file in the
   *   meantime, and gets it back
   */
  async #bind(left: string | undefined): Promise<Server | undefined> {
    if (isWindows) return boundPipe(this.path)
    const own = this.#newName()
    const aside = this.#newName()
    const server = await listening(own)
    let isBound = false
    try {
      if (left !== undefined) {
        if (this.id !== left) return undefined
        if (!lstatSync(this.path).isSocket()) throw unusable(`${this.path} is no socket. Delete it`)
        renameSync(this.path, aside)
      }
      linkSync(own, this.path)
      if (left !== undefined && (await isAnswered(aside))) {
        renameSync(aside, this.path)
        return undefined
      }
      this.#id = this.id
      isBound = true
      return server
    } catch (error) {
      const code = codeOf(error)
      if (code === 'EEXIST' || code === 'ENOENT') return undefined
      throw error instanceof SluiceError
        ? error
        : unusable(`No socket file can be made in ${dirname(this.path)}: ${messageOf(error)}`, error)
    } finally {
      rmSync(own, { force: true })
      rmSync(aside, { force: true })
      if (!isBound) server.close()
    }
  }

  /** A name that no other process uses. */
  #newName(): string {
    return `${this.path}.${randomBytes(4).toString('hex')}`
  }

  /** Creates the folder. Another user who could write into it could answer in place of the server. */
  #checkFolder(): void {
    const folder = dirname(this.path)
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
    } catch (error) {
      throw unusable(`The folder ${folder} cannot be created: ${messageOf(error)}`, error)
    }
    const found = lstatSync(folder)
    if (!found.isDirectory()) throw unusable(`${folder} is no folder. Choose another one with the option \`path\``)
    const user = process.geteuid!()
    if (found.uid !== user)
      throw unusable(
        `The folder ${folder} belongs to the user ${found.uid}, and this process runs as the user ${user}. Choose another one with the option \`path\``,
      )
    if ((found.mode & 0o077) !== 0)
      throw unusable(
        `Other users may use the folder ${folder}: its mode is ${(found.mode & 0o777).toString(8)}. Run chmod 700 on it, or choose another one with the option \`path\``,
      )
  }
}

/** By default, a file for all processes of the user that were started in the same folder. Files of other users and of other machines have other names. */
function fileOf(given: string | undefined): string {
  const user = process.geteuid!()
  const file = given ?? join(tmpdir(), `sluice-${user}`, hashed(process.cwd()))
  if (basename(file) === '' || file.includes('\0')) refuse('path', 'the name of a file', given)
  return `${resolve(file)}-${user}-${hashed(bootOf())}`
}

function pipeOf(given: string | undefined): string {
  return `\\\\.\\pipe\\sluice-${hashed(userInfo().username)}-${hashed(resolve(given ?? process.cwd()))}`
}

/** Identifies the machine since its start. A volume that several machines share has a file for each. */
function bootOf(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return hostname()
  }
}

function hashed(text: string): string {
  return Buffer.from(sha256(Buffer.from(text))).toString('hex', 0, 4)
}

/** What is at a path; nothing also if this process may not look any more. */
function foundAt(path: string): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true })
  } catch {
    return undefined
  }
}

function idOf(found: BigIntStats | undefined): string | undefined {
  return found && `${found.dev}:${found.ino}`
}

async function connected(path: string): Promise<Socket> {
  const socket = createConnection(path)
  await once(socket, 'connect')
  return socket
}

/** True if anything listens, also if it has no room for another connection. */
async function isAnswered(path: string): Promise<boolean> {
  try {
    const socket = await connected(path)
    socket.destroy()
    return true
  } catch (error) {
    return codeOf(error) !== 'ECONNREFUSED'
  }
}

/** Listens. Connections are not read until they are resumed. The workers of `node:cluster` would share a server that is not exclusive. */
async function listening(path: string): Promise<Server> {
  const server = createServer({ pauseOnConnect: true })
  server.listen({ path, exclusive: true })
  try {
    await once(server, 'listening')
  } catch (error) {
    const folder = dirname(path)
    throw unusable(`No socket file can be made in ${folder}: ${messageOf(error)}`, error)
  }
  return server
}

async function boundPipe(path: string): Promise<Server | undefined> {
  try {
    return await listening(path)
  } catch (error) {
    if (codeOf((error as Error).cause) === 'EADDRINUSE') return undefined
    throw error
  }
}

function codeOf(error: unknown): unknown {
  return (error as NodeJS.ErrnoException | undefined)?.code
}

function unusable(problem: string, cause?: unknown): SluiceError {
  return new SluiceError('STORE_SETUP', problem, cause === undefined ? {} : { cause })
}
