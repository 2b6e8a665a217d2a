// Files of rules that tests change.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { problemText } from '../../src/rules/document.ts'
import { type FileOptions, type Rules, rulesFromFile } from '../../src/rules/index.ts'

export const yaml = (quota: number): string => `# for everybody
policies:
  - name: api
    key: ip
    limits:
      - { quota: ${quota}, window: 1m } # a minute
`
export const json = (quota: number): string =>
  JSON.stringify({ policies: [{ name: 'api', key: 'ip', limits: [{ quota, window: '1m' }] }] })

export const quotaOf = (rules: Rules): number => rules.current.policies[0]!.limits![0]!.quota

export function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'sluice-rules-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** Rules from a file, and the events that they have emitted. */
export interface Watched {
  readonly rules: Rules
  readonly events: string[]
}

export async function watched(path: string | URL, options: FileOptions<unknown> = {}): Promise<Watched> {
  const rules = await rulesFromFile(path, options)
  onTestFinished(() => rules.close())
  const events: string[] = []
  rules.on('change', ({ before, after }) => {
    events.push(`${before.policies[0]!.limits![0]!.quota} → ${after.policies[0]!.limits![0]!.quota}`)
  })
  rules.on(
    'invalid',
    ({ problems }) => void events.push(problems.map(problemText).join('\n').replaceAll(String(path), 'PATH')),
  )
  rules.on('unreachable', ({ error }) => void events.push(String(error)))
  return { rules, events }
}

/** Waits for so many events, and then for as long as another one would take. */
export async function seen({ events }: Watched, count: number): Promise<string[]> {
  for (let tries = 0; tries < 500 && events.length < count; tries++) await pause(20)
  await pause(300)
  return events
}
