export async function writeDocs() { return [] }
