// The older versions, under the names that package.json gives them, have the types of the newer ones.
declare module 'express4' {
  export { default } from 'express'
}

declare module 'koa2' {
  export { default } from 'koa'
}
