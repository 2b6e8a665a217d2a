/** The file of a build that names its sources. It is not part of the package. */
export const SOURCES: string
/** Returns a hash of everything that a build is made of, apart from its tools. */
export function sourcesHash(): string
