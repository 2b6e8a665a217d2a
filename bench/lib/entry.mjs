import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/**
 * Imports an entry point of a build, as an application that has installed it does.
 * @param {string} root the folder of the build
 * @param {string} name such as `sluice/redis`
 */
export function entry(root, name) {
  const file = createRequire(join(root, 'package.json')).resolve(name)
  return import(pathToFileURL(file).href)
}

/** Returns the function that decides and charges: `consume`, or `check` as earlier builds call it. */
export function consumer(limiter) {
  return 'consume' in limiter
    ? (key, options) => limiter.consume(key, options)
    : (key, options) => limiter.check(key, options)
}
