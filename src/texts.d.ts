// The modules that `build/texts.mjs` creates. The file of a text is beside the module that imports it.
declare module '*?raw' {
  const text: string
  export default text
}

/** The module in a Worker. Older runtimes have no `waitUntil`. */
declare module 'cloudflare:workers' {
  export const waitUntil: ((work: Promise<unknown>) => void) | undefined
}

declare module '*?script' {
  const text: string
  export default text
}
