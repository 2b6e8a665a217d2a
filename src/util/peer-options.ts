type Equal = readonly [option: string, written: string, theirs: readonly string[]]

/** For each option of this package: how to write it, and its names in other rate limiters, or in the wrong place. */
const EQUALS: readonly Equal[] = [
  [
    'limits',
    "limits: perMinute(100), or limits: fixedWindow({ quota: 100, window: '1m' })",
    ['windowMs', 'max', 'timeWindow', 'duration', 'points', 'ttl', 'throttlers', 'quota', 'window', 'algorithm'],
  ],
  ['limits', "limits: perMinute(100, { block: '15m' })", ['block']],
  ['limits', 'limits: perMinute(100, { strict: true })', ['strict']],
  ['limits', 'limits: perMinute(100, { shadow: true })', ['shadow']],
  ['limits', "limits: gcra({ quota: 100, window: '1m', burst: 20 })", ['burst']],
  ['limits', "block: '15m' in a limit", ['blockDuration', 'ban']],
  ['limits', 'name in a limit', ['identifier']],
  ['quota', 'quota', ['max', 'limit', 'points']],
  ['window', 'window', ['windowMs', 'timeWindow', 'duration', 'ttl', 'interval']],
  ['block', 'block', ['blockDuration', 'ban']],
  ['keyer', 'keyer', ['keyGenerator', 'getTracker', 'generateKey', 'id']],
  ['keyer', 'keyer: ipKeyer({ ipv6Subnet: 64 })', ['ipv6Subnet']],
  ['onDenied', 'message, statusCode or onDenied', ['handler', 'errorResponseBuilder']],
  ['onDecision', 'onDecision', ['onLimitReached', 'onLimited', 'onExceeding', 'onExceeded', 'onBanReach']],
  ['message', 'message', ['errorMessage']],
  ['statusCode', 'statusCode', ['status']],
  ['refundWhen', "refundWhen: 'success'", ['skipSuccessfulRequests']],
  ['refundWhen', "refundWhen: 'failure'", ['skipFailedRequests']],
  ['refundWhen', 'refundWhen', ['requestWasSuccessful']],
  ['headers', "headers: 'standard', 'draft-8', 'draft-7' or 'draft-6'", ['standardHeaders', 'enableDraftSpec']],
  ['headers', "headers: 'github' or 'legacy'", ['legacyHeaders']],
  ['headers', 'headers or headerNames', ['addHeaders', 'addHeadersOnExceeding', 'setHeaders', 'disableHeader']],
  ['allow', "allow: ['10.0.0.0/8'], or skip", ['allowList', 'whitelist']],
  ['skip', 'skip', ['skipIf', 'ignoreUserAgents']],
  ['onOutage', "onOutage: 'open'", ['passOnStoreError', 'skipOnError']],
  ['name', 'name', ['nameSpace', 'namespace', 'keyPrefix']],
  ['store', 'store: redisStore(client)', ['redis', 'storeClient', 'client', 'storage', 'driver', 'db']],
]

/** Returns what to write for an option of another rate limiter, if one of the `known` options is its equal. */
export function equalOf(name: string, known: readonly string[]): string | undefined {
  return EQUALS.find(([option, , theirs]) => known.includes(option) && theirs.includes(name))?.[1]
}
