import workerd from 'workerd'

export { Miniflare } from 'miniflare'
/** The path of the program. */
export const { default: program } = workerd
