export type { LockMode } from '../engine/adjust.ts'
