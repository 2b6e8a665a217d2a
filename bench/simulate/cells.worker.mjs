// Simulates some of the cells of the grid.
import { entry } from '../lib/entry.mjs'
import { finish, job } from '../lib/worker.mjs'
import { simulate } from './simulation.mjs'

const sluice = await entry(job.root, 'sluice')
finish(job.cells.map((cell) => simulate(sluice, cell)))
