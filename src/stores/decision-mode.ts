/** `consume` charges if all enforced limits admit. `peek` charges nothing. */
export type DecisionMode = 'consume' | 'peek'

/**
 * How a decision was made when the store could not decide. `'local'`: by limits in this process. `'open'`: admitted and not
 * counted. `'closed'`: denied.
 */
export type Degraded = 'open' | 'closed' | 'local'
