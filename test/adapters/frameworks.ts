import { casesHere } from '../parts.ts'
import type { NamedHarness } from './framework.ts'
import { nestFrameworks } from './nest-frameworks.ts'
import { nodeFrameworks } from './node-frameworks.ts'
import { webFrameworks } from './web-frameworks.ts'

export const everyFramework: readonly NamedHarness[] = [...nodeFrameworks, ...webFrameworks, ...nestFrameworks]

/** One framework for each adapter in `npm test`, and the other versions in `npm run test:all`. */
export const frameworkOfEachAdapter: readonly NamedHarness[] = casesHere(everyFramework, ({ name }) =>
  ['Express 5', 'Fastify 5', 'Koa 3', 'Hono 4', 'fetch', 'node:http', 'Nest 12 on Express'].includes(name),
)

/** Returns true for a framework of Node, and for one of the web. */
export const isOneOfTwo = ({ name }: NamedHarness): boolean => ['Express 5', 'Hono 4'].includes(name)

/** A framework of Node and one of the web in `npm test`, and the others in `npm run test:all`. */
export const twoFrameworks: readonly NamedHarness[] = casesHere(everyFramework, isOneOfTwo)

/** A framework of Node and one of the web, for what all adapters share: the suite of adapters has one case of it for each. */
export const onlyTwoFrameworks: readonly NamedHarness[] = everyFramework.filter(isOneOfTwo)
