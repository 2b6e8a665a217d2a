import { format, resolveConfig } from 'prettier'

/** A text as the project's formatter writes it: that is the one at the root, so that its check passes. */
export async function pretty(text, file) {
  return format(text, { ...(await resolveConfig(file)), filepath: file })
}
