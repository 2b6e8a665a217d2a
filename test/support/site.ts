import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { serve, type Served } from './http.ts'
import { root } from './programs.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
}

/** The built site, and a server for it on a free port of this machine. */
export interface Site {
  readonly origin: string
  /** The text of every page by its path, such as `/docs/playground.html`. */
  readonly pages: ReadonlyMap<string, string>
  /** The paths of all files. */
  readonly files: ReadonlySet<string>
  close(): Promise<void>
}

/** Builds the site with the command of `npm run docs`, in a separate folder. */
export async function buildSite(): Promise<Site> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-site-'))
  const command = [join(root, 'node_modules/vitepress/bin/vitepress.js'), 'build', 'docs/site', '--outDir', folder]
  await promisify(execFile)(process.execPath, command, { cwd: root, env: { ...process.env, NODE_ENV: 'production' } })
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const names = entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name))
  const files = new Set(names.map((name) => name.slice(folder.length)))
  const pages = new Map<string, string>()
  for (const file of files) if (file.endsWith('.html')) pages.set(file, await readFile(join(folder, file), 'utf8'))
  const { url, close } = await serveFiles(folder, files)
  return {
    origin: url,
    pages,
    files,
    async close() {
      await close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Serves files as a static host does. */
function serveFiles(folder: string, files: ReadonlySet<string>): Promise<Served> {
  return serve((request, response) => {
    const path = decodeURIComponent(new URL(request.url!, 'http://localhost').pathname).replace(/\/$/, '/index.html')
    if (files.has(path)) {
      response.setHeader('content-type', TYPES[extname(path)] ?? 'application/octet-stream')
      // The name of an asset contains a hash of it.
      if (path.startsWith('/assets/')) response.setHeader('cache-control', 'max-age=3600, immutable')
      void readFile(join(folder, path)).then((body) => response.end(body))
    } else response.writeHead(404).end()
  })
}
