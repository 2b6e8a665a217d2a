/**
 * For gateways of language models: the cost of an answer, also of an answer that is cut off.
 *
 * @example
 * import { answerTokens, estimateTokens, usageMeter } from 'sluice/llm'
 *
 * const reserved = { input: estimateTokens(body), output: answerTokens(body, 1000) }
 * const meter = usageMeter({ reserved })
 * for await (const chunk of meter.read(upstream.body)) response.write(chunk)
 * await limiter.settle(decision, meter.cost)
 * @module
 */

export { denialBody, type ModelApi } from './denial.ts'
export { type MeterOptions, type ModelBody, usageMeter, type UsageMeter } from './meter.ts'
export { answerTokens, type EstimateOptions, estimateTokens } from './tokens.ts'
export { price, type Prices, type TokenCounts, type Usage } from './usage.ts'
