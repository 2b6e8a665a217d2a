import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programPath } from './debian.ts'
import { freePort } from './redis.ts'
import { endProcess, startServer } from './server-process.ts'

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

/** Returns the path of a command of Prometheus: on the PATH, else from Debian's package. Throws with what to install. */
export function prometheusCommand(command: 'prometheus' | 'promtool'): string {
  const missing = 'The test needs a real Prometheus: put prometheus and promtool on the PATH.'
  return programPath(`command -v ${command}`, 'prometheus', missing)
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
  const url = `http://127.0.0.1:${port}`
  const words = [
    `--config.file=${config}`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]
  const child = await startServer(prometheusCommand('prometheus'), words, `${url}/-/ready`)
  return {
    query: (expression) => query(url, expression),
    async stop() {
      await endProcess(child)
      rmSync(folder, { recursive: true, force: true })
    },
  }
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
