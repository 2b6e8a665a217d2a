/**
 * Redis and Valkey: a store that counts for the whole fleet, and rules that reach every process.
 *
 * @example
 * import { redisRules, redisStore } from 'sluice/redis'
 *
 * const rules = await redisRules(client)
 * app.use(rateLimit({ rules, store: redisStore(client) }))
 * @module
 */

export * from '../../stores/redis/index.ts'
export { pullRules, pushRules, type PushOptions } from './stored.ts'
export { redisRules, type RedisRulesOptions } from './source.ts'
export type { PulledRules, RedisPlace, RulesPush } from './stored.ts'
