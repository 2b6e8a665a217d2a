/** The floor grey, ours strong, each peer the same in every plot. */
const COLOURS = {
  floor: '#9e9e9e',
  sluice: '#d62728',
  '@fastify/rate-limit': '#1f77b4',
  'hono-rate-limiter': '#ff9f40',
  'express-rate-limit': '#2ca02c',
  limiter: '#9467bd',
  'rate-limiter-flexible': '#8c564b',
}

/** A Vega-Lite colour channel for the subjects of a plot. */
export function colour(legend = { title: null }) {
  return {
    field: 'subject',
    type: 'nominal',
    legend,
    scale: { domain: Object.keys(COLOURS), range: Object.values(COLOURS) },
  }
}

export const ORDER = Object.keys(COLOURS)
