import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { formatted } from '../../build/format.mjs'

/** Short runs never replace long ones. */
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

/** Stores the measured parts in addition to those of earlier runs. Returns the name of the file. */
export async function save(quick, measured) {
  const file = fileOf(quick)
  const parts = { ...load(quick).parts, ...measured }
  writeFileSync(file, await formatted(JSON.stringify({ parts }, rounded), file))
  return file
}

/** Six digits are more than any figure has. */
function rounded(_key, value) {
  return typeof value === 'number' ? Number(value.toPrecision(6)) : value
}
