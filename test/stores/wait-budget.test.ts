import { expect, it } from 'vitest'
import { WaitBudget } from '../../src/stores/wait-budget.ts'

it('allows a second, of which 100 ms come back in each second', () => {
  let now = 5000
  const budget = new WaitBudget(() => now)
  expect(budget.left).toBe(1000)
  budget.spend(400)
  expect(budget.left).toBe(600)
  budget.spend(700)
  expect(budget.left).toBe(0)
  now += 1000
  expect(budget.left).toBeCloseTo(100)
  now += 3_600_000
  expect(budget.left).toBe(1000)
})

it('takes no more back than a second', () => {
  const budget = new WaitBudget(() => 0)
  budget.spend(300)
  budget.spend(-200)
  expect(budget.left).toBe(900)
  budget.spend(-200)
  expect(budget.left).toBe(1000)
})
