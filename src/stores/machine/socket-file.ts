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
import { quietly } from '../../util/quietly.ts'
import { sha256 } from '../../util/sha256.ts'
import { LONGEST_SOCKET_NAME } from '../../util/socket-name.ts'
import { refuse } from '../../util/validate.ts'

/** Bytes that a private name of a process has in addition. */
const PRIVATE = 9
/** Attempts to connect or to bind. Another process may do the same at the same time. */
const ATTEMPTS = 20
/** Milliseconds after which the time of the file is renewed, so that programs that delete old files keep it. */
const RENEWED = 3_600_000

const isWindows = process.platform === 'win32'

/** The role of a process: it asks over a socket, or it serves. */
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
 * A server first listens at a private name, and then links it to the name of the file. The link fails if another process was first, and the file never
 * exists before the server listens. When the server closes, libuv deletes the private name. It does not delete the file, which may belong to another
 * server by then.
 */
export class SocketFile {
  readonly path: string
  /** The inode of the file that this process has bound. */
  #id: string | undefined

  /** @param given the option `path`. Throws `INVALID_OPTION` for a name that is too long, and `STORE_SETUP` for a folder that others can use */
  constructor(given: string | undefined) {
    this.path = isWindows ? pipeOf(given) : fileOf(given)
    if (isWindows) return
    if (Buffer.byteLength(this.path) + PRIVATE > LONGEST_SOCKET_NAME)
      refuse(
        'path',
        `a name so short that ${this.path} has at most ${LONGEST_SOCKET_NAME - PRIVATE} bytes`,
        given ?? this.path,
      )
    this.#checkFolder()
  }

  /** Identifies the file that exists now; `undefined` for a named pipe, or without a file. */
  get id(): string | undefined {
    return isWindows ? undefined : idOf(foundAt(this.path))
  }

  /** False once the file that this process has bound was deleted or replaced. Renews the time of the file once an hour. */
  get isOurs(): boolean {
    if (isWindows) return true
    const found = foundAt(this.path)
    if (found === undefined || idOf(found) !== this.#id) return false
    // A file system can refuse this, such as one that has become read-only. Processes find the server without it.
    if (Date.now() - Number(found.mtimeMs) > RENEWED) quietly(() => lutimesSync(this.path, new Date(), new Date()))
    return true
  }

  /**
   * Connects to the process that serves. If there is none, this process serves. Throws `STORE_SETUP` if the file or its folder cannot be used, and
   * another error if it may succeed later.
   */
  async meet(): Promise<Met> {
    if (!isWindows) this.#checkFolder()
    for (let attempts = 0; attempts < ATTEMPTS; attempts++) {
      const found = this.id
      try {
        return { socket: await connected(this.path) }
      } catch (error) {
        const code = codeOf(error)
        // The process that listened has ended. The kernel still accepts connections for a process that is only stopped.
        const isLeft = code === 'ECONNREFUSED' && found !== undefined
        if (code !== 'ENOENT' && !isLeft) throw error
        const server = await this.#bind(isLeft ? found : undefined)
        if (server !== undefined) return { server, wasLeft: isLeft }
      }
    }
    throw new SluiceError('STORE_FAILED', `No process keeps the file ${this.path}`)
  }

  /** Makes the file again after it was deleted. Returns `undefined` if there is a file, such as that of another process that serves now. */
  async restore(): Promise<Server | undefined> {
    if (isWindows || this.id !== undefined) return undefined
    this.#checkFolder()
    return this.#bind(undefined)
  }

  /** Replaces the file of a server that hands its counts over. Returns `undefined` if the file no longer belongs to this server. */
  async replace(id: string): Promise<Server | undefined> {
    if (isWindows) return boundPipe(this.path)
    const own = this.#newName()
    const server = await listening(own)
    if (this.id === id) {
      this.#id = idOf(foundAt(own))
      renameSync(own, this.path)
      return server
    }
    server.close()
    return undefined
  }

  /** Deletes the file if this process has bound it. */
  leave(): void {
    if (!isWindows && this.isOurs) quietly(() => rmSync(this.path, { force: true }))
    this.#id = undefined
  }

  /**
   * @param left the file of a process that has ended. It is renamed, tried once more, and deleted. If a process answers, another process has bound the
   *   file in the meantime, so the file is renamed back
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
      // The file itself may be renamed by another process at this moment, which renames it back.
      this.#id = idOf(foundAt(own))
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

  /** Returns a name that no other process uses. */
  #newName(): string {
    return `${this.path}.${randomBytes(4).toString('hex')}`
  }

  /** Creates the folder and checks its owner and mode. If another user could write into it, this user could answer in place of the server. */
  #checkFolder(): void {
    const folder = dirname(this.path)
    try {
      mkdirSync(folder, { recursive: true, mode: 0o700 })
    } catch (error) {
      throw unusable(
        `The folder ${folder} cannot be created: ${messageOf(error)}. Choose another one with the option \`path\``,
        error,
      )
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
        `Other users may use the folder ${folder}: its mode is ${(found.mode & 0o777).toString(8)}. Choose a new folder with the option \`path\`, or run chmod 700 on this one if nothing else uses it`,
      )
  }
}

/**
 * Returns the path of the socket file. By default, all processes of the user that were started in the same folder share it. Other users and other
 * machines have other names.
 */
function fileOf(given: string | undefined): string {
  const user = process.geteuid!()
  const file = given ?? join(tmpdir(), `sluice-${user}`, hashed(process.cwd()))
  if (basename(file) === '' || file.includes('\0')) refuse('path', 'the name of a file', given)
  return `${resolve(file)}-${user}-${hashed(bootOf())}`
}

function pipeOf(given: string | undefined): string {
  return `\\\\.\\pipe\\sluice-${hashed(userInfo().username)}-${hashed(resolve(given ?? process.cwd()))}`
}

/** Returns an id of the machine since its last start. Machines that share a volume have different files. */
function bootOf(): string {
  return quietly(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()) ?? hostname()
}

function hashed(text: string): string {
  return Buffer.from(sha256(Buffer.from(text))).toString('hex', 0, 4)
}

/** Returns what is at a path; `undefined` if there is nothing, or if this process has no access. */
function foundAt(path: string): BigIntStats | undefined {
  return quietly(() => lstatSync(path, { bigint: true }))
}

function idOf(found: BigIntStats | undefined): string | undefined {
  return found && `${found.dev}:${found.ino}`
}

async function connected(path: string): Promise<Socket> {
  const socket = createConnection(path)
  await once(socket, 'connect')
  return socket
}

/** Returns true if a process listens, even if it has no room for another connection. */
async function isAnswered(path: string): Promise<boolean> {
  try {
    const socket = await connected(path)
    socket.destroy()
    return true
  } catch (error) {
    return codeOf(error) !== 'ECONNREFUSED'
  }
}

/** Starts a server. Its connections are paused. It is exclusive, because the workers of `node:cluster` share other servers. */
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
