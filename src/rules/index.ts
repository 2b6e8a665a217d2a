/**
 * Limits as data, changed while the service runs: `rateLimit({ rules })` and `createLimiter({ rules })`.
 *
 * @example
 * import { createRules } from 'sluice/rules'
 *
 * const rules = createRules({ policies: [{ name: 'api', key: 'ip', limits: [{ quota: 60, window: '1m' }] }] })
 * app.use(rateLimit({ rules }))
 * @module
 */

export { checkRules } from './compile.ts'
export type {
  AttributeValue,
  BlockRule,
  KeyText,
  LeaseRule,
  LimitRule,
  MatchRule,
  OtherwiseRule,
  OverrideLimitRule,
  OverrideRule,
  PolicyRule,
  RulesDocument,
  RulesProblem,
  RulesVersion,
} from './document.ts'
export { type FileOptions, rulesFromFile } from './file.ts'
export type { UnmatchedEvent } from '../limiter/decision.ts'
export { type Documents, rulesFrom, type SourceOptions } from './start.ts'
export { createRules } from './rules.ts'
export type { ReplaceOptions, Rules, RulesEvent, RulesEvents, RulesOptions } from './rules.ts'
export { rulesSchema } from './shapes.ts'
export type { JsonSchema } from './shape.ts'
export type { ShadowDenial, ShadowLimit, ShadowOptions, ShadowReport, ShadowRules } from './shadow.ts'
