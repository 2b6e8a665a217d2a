// Debian has no Envoy. This reads the configuration of docs/guides/envoy.md, and sends the requests that Envoy sends with it: the method, the path behind
// `path_prefix`, the headers that always pass and the allowed ones, `Content-Length: 0`, the headers of its HTTP client, and `headers_to_add` over all.
import { expect, it } from 'vitest'
import { parseAllDocuments } from 'yaml'
import type { Reply } from '../../support/http.ts'
import { readPage } from '../../support/pages.ts'
import { blocksOf } from '../../support/programs.ts'
import { askService, commandLineWithRules, serveRules, type Serving } from '../../support/serve-program.ts'

interface Header {
  readonly key: string
  readonly value: string
}

interface ExtAuthz {
  readonly failure_mode_allow: boolean
  readonly allowed_headers: { readonly patterns: readonly { readonly exact: string }[] }
  readonly http_service: {
    readonly server_uri: { readonly cluster: string; readonly uri: string }
    readonly path_prefix: string
    readonly authorization_request: { readonly headers_to_add: readonly Header[] }
    readonly authorization_response: {
      readonly allowed_client_headers_on_success: { readonly patterns: readonly { readonly prefix: string }[] }
    }
  }
}

interface Page {
  readonly http_filters: readonly { readonly name: string; readonly typed_config: ExtAuthz }[]
  readonly clusters: readonly { readonly name: string }[]
}

const text = readPage('docs/guides/envoy.md')
const configuration = Object.assign(
  {},
  ...blocksOf(text)
    .filter(({ language }) => language === 'yml')
    .flatMap(({ code }) => parseAllDocuments(code).map((each) => each.toJS() as object)),
) as Page
const filter = configuration.http_filters[0]!.typed_config
const service = filter.http_service
const added = (name: string): string =>
  service.authorization_request.headers_to_add.find(({ key }) => key === name)!.value
const token = added('authorization').replace('Bearer ', '')

const limits = [{ algorithm: 'fixedWindow', quota: 2, window: '1h' }]
const program = commandLineWithRules({
  policies: [
    { name: 'api', match: { path: '/api/*', method: 'POST' }, key: 'ip', limits },
    { name: 'keys', match: { path: '/keys' }, key: 'header:x-api-key', limits },
  ],
})

/** Sends what Envoy sends about a request of a client. */
function envoy(
  serving: Serving,
  method: string,
  path: string,
  client: Record<string, string>,
  ip = '203.0.113.7',
): Promise<Reply> {
  const passed = ['host', 'authorization', ...filter.allowed_headers.patterns.map(({ exact }) => exact)]
  const headers: Record<string, string> = {
    'content-length': '0',
    'x-envoy-internal': 'true',
    'x-forwarded-for': '10.0.0.1',
  }
  for (const name of passed) if (client[name] !== undefined) headers[name] = client[name]
  for (const { key, value } of service.authorization_request.headers_to_add)
    headers[key] = value.replace('%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%', ip)
  return askService(serving, service.path_prefix + path, { method, headers: { host: 'api.example.com', ...headers } })
}

const start = (): Promise<Serving> => serveRules(program, { SLUICE_TOKEN: token })

it('has a filter before the router, and the cluster of the service', () => {
  expect(configuration.http_filters.map(({ name }) => name)).toEqual([
    'envoy.filters.http.ext_authz',
    'envoy.filters.http.router',
  ])
  expect(configuration.clusters.map(({ name }) => name)).toEqual([service.server_uri.cluster])
  expect(text).toContain(`SLUICE_TOKEN=${token} npx sluice serve`)
  expect(filter.failure_mode_allow).toBe(false)
})

it('is answered with 200 and the headers that it passes on, or with the whole denial', async () => {
  const serving = await start()
  const post = (): Promise<Reply> => envoy(serving, 'POST', '/api/a?b=c', { accept: '*/*' })
  const first = await post()
  expect(first.status).toBe(200)
  const [{ prefix }] = service.authorization_response.allowed_client_headers_on_success.patterns as [{ prefix: string }]
  expect(Object.keys(first.headers).filter((name) => name.startsWith(prefix))).toEqual([
    'ratelimit-policy',
    'ratelimit',
  ])
  await post()
  const denied = await post()
  expect(denied.status).toBe(429)
  expect(denied.headers).toMatchObject({
    'content-type': 'application/problem+json',
    'retry-after': expect.stringMatching(/^\d+$/),
  })
  expect(JSON.parse(denied.body)).toMatchObject({ 'violated-policies': ['api'] })
  expect((await envoy(serving, 'GET', '/api/a', {})).status).toBe(200)
})

it('limits by an allowed header, and the headers and the query of a client change nothing else', async () => {
  const serving = await start()
  const forged = {
    'x-real-ip': '198.51.100.1',
    'x-original-uri': '/other',
    authorization: 'Bearer of-the-client-itself',
  }
  const key = (name: string): Promise<Reply> =>
    envoy(serving, 'GET', '/keys?deny=200', { 'x-api-key': name, ...forged })
  expect([(await key('a')).status, (await key('a')).status, (await key('a')).status, (await key('b')).status]).toEqual([
    200, 200, 429, 200,
  ])
})
