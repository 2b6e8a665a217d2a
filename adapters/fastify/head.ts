import type { FastifyReply } from 'fastify'
import type { NodeHead } from '../../src/http/response/begun-denial.ts'

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
  }
}
