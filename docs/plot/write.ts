// Draws the pictures of the algorithms again.
import { mkdir, writeFile } from 'node:fs/promises'
import { draw } from './pictures.ts'

const folder = 'docs/img/algorithms'
await mkdir(folder, { recursive: true })
for (const [name, text] of await draw()) await writeFile(`${folder}/${name}`, text)
