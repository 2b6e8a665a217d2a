// What `build/texts.mjs` reads. The file of a text is beside the module that imports it.
declare module '*?raw' {
  const text: string
  export default text
}

declare module '*?script' {
  const text: string
  export default text
}
