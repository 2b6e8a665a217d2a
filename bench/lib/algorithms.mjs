import { rulesSchema } from '../../dist/src/rules/index.js'

const { policies } = rulesSchema().properties

/** The names of all algorithms of the package. Rules accept each of them. */
export const algorithmNames = policies.items.properties.limits.items.anyOf.flatMap(
  ({ properties }) => properties.algorithm.enum,
)
