import type { TopLevelSpec } from 'vega-lite'

export const WIDTH: number
export function svg(spec: TopLevelSpec): Promise<string>
