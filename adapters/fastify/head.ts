import type { FastifyReply } from 'fastify'
import type { NodeHead } from '../../src/http/response/on-denied.ts'

/** Returns the head of a reply. Fastify keeps the headers of a reply itself, and sends them with the body. */
export function headOf(reply: FastifyReply): NodeHead {
  return {
    get statusCode() {
      return reply.statusCode
    },
    set statusCode(status) {
      reply.code(status)
    },
    get headersSent() {
      return reply.sent
    },
    get destroyed() {
      return reply.raw.destroyed
    },
    getHeader: (name) => reply.getHeader(name),
    setHeader: (name, value) => reply.header(name, value),
    removeHeader: (name) => void reply.removeHeader(name),
    keepChoice: (status) => keepChoice(reply, status),
  }
}

const FOUND = 302

/**
 * Fastify redirects with 302 unless a status was chosen. That of a denial is not the choice of the application: while the reply has it,
 * `reply.redirect` uses 302, and afterwards the reply knows again whether the application has chosen one. Fastify keeps this under a
 * private symbol; without it, a later redirect needs its status as an argument.
 */
function keepChoice(reply: FastifyReply, denial: number): () => void {
  const { redirect } = reply
  const own = Object.getOwnPropertySymbols(reply).find(({ description }) => description === HAS_STATUS)
  const flags = reply as unknown as Record<symbol, boolean>
  const hasStatus = own && flags[own]
  reply.redirect = (url, code = reply.statusCode === denial ? FOUND : reply.statusCode) =>
    redirect.call(reply, url, code)
  return function restore() {
    reply.redirect = redirect
    if (own !== undefined) flags[own] = hasStatus!
  }
}

const HAS_STATUS = 'fastify.reply.hasStatusCode'
