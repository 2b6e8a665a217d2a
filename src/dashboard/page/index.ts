import { html } from './html.ts'
import { icon } from './icon.ts'
import { keysScript } from './keys-script.ts'
import { mainScript } from './main-script.ts'
import { modelScript } from './model-script.ts'
import { plotScript } from './plot-script.ts'
import { style } from './style.ts'
import { tablesScript } from './tables-script.ts'

/** A file of the page. */
export interface PageFile {
  readonly type: string
  readonly text: string
}

const script = (text: string): PageFile => ({ type: 'text/javascript', text })

/**
 * The files of the page by their paths. They are texts in modules, so that they are found wherever the package is: as ES modules, as
 * CommonJS modules, and in a bundle.
 */
export const files: ReadonlyMap<string, PageFile> = new Map([
  ['/', { type: 'text/html', text: html }],
  ['/style.css', { type: 'text/css', text: style }],
  ['/icon.svg', { type: 'image/svg+xml', text: icon }],
  ['/main.js', script(mainScript)],
  ['/model.js', script(modelScript)],
  ['/plot.js', script(plotScript)],
  ['/tables.js', script(tablesScript)],
  ['/keys.js', script(keysScript)],
])
