import { createRequire } from 'node:module'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Imports an entry point of a build, as an application that has installed it does. Limits can then name all algorithms: earlier builds have no
 * entry point for them.
 * @param {string} root the folder of the build
 * @param {string} name such as `sluice/redis`
 */
export async function entry(root, name) {
  const { resolve } = createRequire(join(root, 'package.json'))
  const load = (each) => import(pathToFileURL(resolve(each)).href)
  const { exports } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  if (name === 'sluice' && './algorithms' in exports) await load('sluice/algorithms')
  return load(name)
}

/** Returns the function that decides and charges: `consume`, or `check` as earlier builds call it. */
export function consumer(limiter) {
  return 'consume' in limiter
    ? (key, options) => limiter.consume(key, options)
    : (key, options) => limiter.check(key, options)
}
