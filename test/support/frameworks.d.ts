// The older versions have separate names in package.json, and the types of the newer ones.
declare module 'express4' {
  export { default } from 'express'
}

declare module 'koa2' {
  export { default } from 'koa'
}
