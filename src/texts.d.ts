// What `build/texts.mjs` reads. The file of a text is beside the module that imports it.
declare module '*?raw' {
  const text: string
  export default text
}

/** In a Worker. Older ones have no `waitUntil`. */
declare module 'cloudflare:workers' {
  export const waitUntil: ((work: Promise<unknown>) => void) | undefined
}

declare module '*?script' {
  const text: string
  export default text
}
