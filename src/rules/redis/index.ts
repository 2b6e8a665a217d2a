/**
 * Redis and Valkey: a store that counts for the whole fleet, and rules that reach every process.
 *
 * @example
 * import { rulesFromRedis, redisStore } from 'sluice/redis'
 *
 * const rules = await rulesFromRedis(client)
 * app.use(rateLimit({ rules, store: redisStore(client) }))
 * @module
 */

export * from '../../stores/redis/index.ts'
export { pullRules, pushRules, type PushOptions, rollbackRules, type RollbackOptions, rulesHistory } from './stored.ts'
export { rulesFromRedis, type RedisRulesOptions } from './source.ts'
export type { PulledRules, RedisPlace, RulesPush } from './stored.ts'
