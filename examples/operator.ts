// The dashboard that the other examples mount below /limits. Log in as operator with the password in DASHBOARD_PASSWORD.
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Dashboard, dashboard } from 'sluice/dashboard'

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

const credentials = Buffer.from(`operator:${process.env.DASHBOARD_PASSWORD ?? 'change me'}`).toString('base64')
export const authorization: string = `Basic ${credentials}`

/** True for the operator's password. The comparison takes the same time for every other one. */
export function isOperator({ headers }: IncomingMessage): boolean {
  return timingSafeEqual(digest(headers.authorization ?? ''), digest(authorization))
}

export const board: Dashboard = dashboard({
  authorize: isOperator,
  challenge: 'Basic realm="limits"',
  basePath: '/limits',
})
