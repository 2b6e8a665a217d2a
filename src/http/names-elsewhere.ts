import type { Equal } from '../util/validate.ts'

/** Options for HTTP, and their names in other rate limiters. */
export const NAMES_ELSEWHERE: readonly Equal[] = [
  ['onDenied', 'handler errorResponseBuilder', 'message, statusCode or onDenied'],
  ['message', 'errorMessage'],
  ['statusCode', 'status'],
  ['count', 'skipSuccessfulRequests', "count: 'failures'"],
  ['count', 'skipFailedRequests', "count: 'successes'"],
  ['refundWhen', 'requestWasSuccessful'],
  ['headers', 'standardHeaders enableDraftSpec', "headers: 'standard', 'draft-8', 'draft-7' or 'draft-6'"],
  ['headers', 'legacyHeaders', "headers: 'github' or 'legacy'"],
  ['headers', 'addHeaders addHeadersOnExceeding setHeaders disableHeader', 'headers or headerNames'],
  ['allow', 'allowList whitelist', "allow: ['10.0.0.0/8'], or skip"],
  ['skip', 'skipIf ignoreUserAgents'],
  ['onOutage', 'passOnStoreError skipOnError', "onOutage: 'open'"],
  ['checks', 'validate', 'checks: false'],
]
