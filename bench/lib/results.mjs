import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { pretty } from './pretty.mjs'

/** Where the results are kept; short runs never replace long ones. */
function fileOf(quick) {
  return fileURLToPath(new URL(`../results/${quick ? 'quick' : 'latest'}.json`, import.meta.url))
}

/** @returns {{ parts: Record<string, object> }} */
export function load(quick) {
  try {
    return JSON.parse(readFileSync(fileOf(quick), 'utf8'))
  } catch (error) {
    if (error.code === 'ENOENT') return { parts: {} }
    throw error
  }
}

/** Keeps the parts that were measured, beside those measured before. */
export async function save(quick, measured) {
  const parts = { ...load(quick).parts, ...measured }
  writeFileSync(fileOf(quick), await pretty(JSON.stringify({ parts }, rounded), fileOf(quick)))
  return fileOf(quick)
}

/** Six digits are more than any of these numbers has. */
function rounded(_key, value) {
  return typeof value === 'number' ? Number(value.toPrecision(6)) : value
}
