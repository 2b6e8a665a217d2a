import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from './redis.ts'

/** A real Prometheus that scrapes one target every second. */
export interface PrometheusServer {
  /** Returns the series of a query, each with its labels and its value. */
  query(expression: string): Promise<readonly Series[]>
  stop(): Promise<void>
}

export interface Series {
  readonly metric: Readonly<Record<string, string>>
  /** The time in seconds, and the value as text. */
  readonly value: readonly [number, string]
}

/** Installs Debian's package where a command of it is missing. Throws with what to install. */
export function prometheusCommand(command: 'prometheus' | 'promtool'): string {
  return onPath(command) ?? installed(command)
}

function onPath(command: string): string | undefined {
  try {
    return execFileSync('sh', ['-c', `command -v ${command}`], { encoding: 'utf8' }).trim()
  } catch {
    return undefined
  }
}

function installed(command: string): string {
  try {
    execFileSync('apt-get', ['update'], { stdio: 'ignore' })
    execFileSync('apt-get', ['install', '-y', '--no-install-recommends', 'prometheus'], { stdio: 'ignore' })
  } catch (cause) {
    throw new Error('The test needs a real Prometheus: put prometheus and promtool on the PATH.', { cause })
  }
  return onPath(command)!
}

/** Starts a Prometheus that scrapes a port of this machine. */
export async function startPrometheus(target: number): Promise<PrometheusServer> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-prometheus-'))
  const port = await freePort()
  const config = join(folder, 'prometheus.yml')
  writeFileSync(
    config,
    `global: { scrape_interval: 1s }\nscrape_configs: [{ job_name: app, static_configs: [{ targets: ['127.0.0.1:${target}'] }] }]\n`,
  )
  const child = spawn(
    prometheusCommand('prometheus'),
    [`--config.file=${config}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=127.0.0.1:${port}`],
    { stdio: 'ignore' },
  )
  const url = `http://127.0.0.1:${port}`
  async function stop(): Promise<void> {
    await end(child)
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await ready(child, `${url}/-/ready`)
  } catch (error) {
    await stop()
    throw error
  }
  return { query: (expression) => query(url, expression), stop }
}

async function ready(child: ChildProcess, url: string): Promise<void> {
  for (let attempts = 0; attempts < 300; attempts++) {
    if (child.exitCode !== null) throw new Error(`Prometheus ended with code ${child.exitCode}`)
    const answer = await fetch(url).catch(() => undefined)
    if (answer?.ok) return
    await pause(100)
  }
  throw new Error('Prometheus did not start within 30 seconds')
}

async function query(url: string, expression: string): Promise<readonly Series[]> {
  const answer = await fetch(`${url}/api/v1/query`, {
    method: 'POST',
    body: new URLSearchParams({ query: expression }),
  })
  const { status, error, data } = (await answer.json()) as {
    status: string
    error?: string
    data?: { result: Series[] }
  }
  if (status !== 'success') throw new Error(`${expression}: ${error}`)
  return data!.result
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}
