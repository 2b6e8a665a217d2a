import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { answerTokens, denialBody, estimateTokens, price } from '../../src/llm/index.ts'
import { createLimiter, fixedWindow, memoryStore } from '../../src/index.ts'
import { codeOf } from '../support/code-of.ts'
import { readPage } from '../support/pages.ts'
import { virtualClock } from '../../src/testing.ts'

/** Texts, and their tokens in the encodings `o200k_base` and `cl100k_base` of OpenAI and in Claude 2, as their tokenizers count. */
const counted: Readonly<Record<string, readonly [text: string, tokens: readonly [number, number, number]]>> = {
  English: [
    'All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood. Everyone has the right to life, liberty and security of person. No one shall be held in slavery or servitude; slavery and the slave trade shall be prohibited in all their forms.',
    [70, 70, 70],
  ],
  German: [
    'Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen. Jeder hat das Recht auf Leben, Freiheit und Sicherheit der Person. Donaudampfschifffahrtsgesellschaftskapitän.',
    [64, 79, 86],
  ],
  French: [
    'Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison et de conscience et doivent agir les uns envers les autres dans un esprit de fraternité. Tout individu a droit à la vie, à la liberté et à la sûreté de sa personne.',
    [61, 73, 79],
  ],
  Polish: [
    'Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.',
    [53, 64, 79],
  ],
  Vietnamese: [
    'Tất cả mọi người sinh ra đều được tự do và bình đẳng về nhân phẩm và quyền. Mọi con người đều được tạo hoá ban cho lý trí và lương tâm và cần phải đối xử với nhau trong tình bằng hữu.',
    [50, 84, 132],
  ],
  Russian: [
    'Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.',
    [41, 74, 89],
  ],
  Greek: [
    'Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.',
    [71, 172, 210],
  ],
  Arabic: [
    'يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم بعضا بروح الإخاء.',
    [42, 80, 101],
  ],
  Hindi: [
    'सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।',
    [54, 180, 199],
  ],
  Thai: [
    'มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ',
    [63, 135, 240],
  ],
  Chinese: [
    '人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。人人有权享有生命、自由和人身安全。任何人不得使为奴隶或奴役;一切形式的奴隶制度和奴隶买卖,均应予以禁止。',
    [83, 118, 112],
  ],
  Japanese: [
    'すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。',
    [72, 93, 87],
  ],
  Korean: [
    '모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.',
    [51, 85, 95],
  ],
  'program text': [
    "export function tokenCount(value: unknown): number | undefined {\n  return typeof value === 'number' && value >= 0 ? value : undefined\n}\n",
    [31, 31, 32],
  ],
  JSON: ['{"id":"a8f3","city":"Berlin","units":"metric","lat":52.520008,"lon":13.404954,"days":[1,2,3]}', [38, 38, 38]],
}

/** Returns the estimate of a text without the frame of a prompt. */
const estimated = (text: string): number => estimateTokens(text) - estimateTokens('')

describe('the estimate of a prompt', () => {
  it.each(Object.entries(counted))(
    'of %s is not far below any tokenizer, and not far above the newest',
    (_, [text, [newest, ...older]]) => {
      expect(estimated(text)).toBeGreaterThanOrEqual(newest)
      expect(estimated(text)).toBeLessThan(6 * newest)
      for (const tokens of older) expect(estimated(text)).toBeGreaterThan(0.8 * tokens)
    },
  )

  it('has the errors that the guide says', () => {
    const rows = [
      ...readPage('docs/guides/language-models.md').matchAll(
        /^\| ([\w, ]+?) +\| ([\d.]+) × +\| ([\d.]+) × +\| ([\d.]+) × +\|$/gm,
      ),
    ]
    expect(rows.map(([, script]) => script)).toEqual(Object.keys(counted))
    for (const [, script, ...cells] of rows) {
      const [text, tokens] = counted[script!]!
      expect(cells).toEqual(tokens.map((each) => (estimated(text) / each).toFixed(1)))
    }
  })

  it('counts all parts of a body: system, tools, and nested results', () => {
    const words = 'many words of a customer '.repeat(100)
    const least = estimated(words)
    const bodies = [
      { messages: [{ role: 'user', content: words }] },
      { messages: [{ role: 'user', content: [{ type: 'text', text: words }] }] },
      { messages: [], system: [{ type: 'text', text: words }] },
      { messages: [], tools: [{ type: 'function', function: { name: 'a', description: words } }] },
      { messages: [], tools: [{ name: 'a', input_schema: { properties: { [words]: {} } } }] },
      { messages: [{ role: 'user', content: [{ type: 'tool_result', content: [{ type: 'text', text: words }] }] }] },
      { input: words, instructions: 'short' },
      { messages: [{ role: 'assistant', tool_calls: [{ function: { name: 'a', arguments: words } }] }] },
    ]
    for (const body of bodies) expect(estimateTokens(body)).toBeGreaterThanOrEqual(least)
  })

  it('counts an image by a number, and not by its bytes', () => {
    const data = 'A'.repeat(1e6)
    const images = [
      { type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } },
      { type: 'input_image', image_url: `data:image/png;base64,${data}` },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
    ]
    for (const image of images) {
      const body = { messages: [{ role: 'user', content: [image, image] }] }
      expect(estimateTokens(body)).toBeGreaterThanOrEqual(3200)
      expect(estimateTokens(body)).toBeLessThan(3300)
      expect(estimateTokens(body, { image: 50_000 }) - estimateTokens(body)).toBe(2 * (50_000 - 1600))
    }
    // A text is a text, whatever else is in its part.
    const hidden = { type: 'image', text: data, source: {} }
    expect(estimateTokens({ messages: [{ content: [hidden] }] })).toBeGreaterThan(1e5)
    expect(() => estimateTokens({}, { image: -1 })).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })

  it('is a whole number for any body', () => {
    fc.assert(
      fc.property(fc.anything(), fc.jsonValue(), (anything, json) => {
        const bodies = [anything, json, { messages: json, tools: json }, { n: json, max_tokens: json }]
        return bodies.every((body) => {
          const answer = answerTokens(body, 100)
          return Number.isSafeInteger(estimateTokens(body)) && Number.isSafeInteger(answer) && answer > 0
        })
      }),
      { numRuns: 100 },
    )
    const deep: unknown = JSON.parse(`${'['.repeat(1e5)}${']'.repeat(1e5)}`)
    expect(estimateTokens(deep)).toBe(estimateTokens([]))
  })
})

it('the longest answer is the largest that the body permits, for all choices', () => {
  expect(answerTokens({}, 1000)).toBe(1000)
  expect(answerTokens({ max_tokens: 50 }, 1000)).toBe(50)
  expect(answerTokens({ max_tokens: 1, max_completion_tokens: 70, max_output_tokens: 5 }, 1000)).toBe(70)
  expect(answerTokens({ max_tokens: 50, n: 3 }, 1000)).toBe(150)
  for (const wrong of [-5, 0, 0.5, '', '0', null, {}]) {
    expect(answerTokens({ max_tokens: wrong, n: wrong }, 1000)).toBe(1000)
  }
  expect(() => answerTokens({}, 0)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
})

it.each([
  ['9', 9],
  ['4e3', 4000],
  [1e300, 1e9],
  [Infinity, 1e9],
  ['1_000', 1e9],
])('a maximum of %o tokens is not less than what a server may read', (given, tokens) => {
  expect(answerTokens({ max_tokens: given }, 5)).toBe(tokens)
  expect(answerTokens({ max_tokens: 1, n: given }, 5)).toBe(tokens)
})

describe('a price', () => {
  const prices = { input: 2.5, cachedInput: 0.25, output: 10 }

  it('is in micro-dollars, rounded up', () => {
    expect(price({ input: 1_000_000, output: 0 }, prices)).toBe(2_500_000)
    expect(price({ input: 1000, output: 200 }, prices)).toBe(4500)
    expect(price({ input: 1, output: 0 }, prices)).toBe(3)
    // 10 × 0.1 is not 1 in binary fractions.
    expect(price({ input: 3, output: 0 }, { input: 0.1, output: 1 })).toBe(1)
    expect(price({ input: 30, output: 0 }, { input: 0.1, output: 1 })).toBe(3)
    expect(price({ input: 0, output: 0 }, prices)).toBe(0)
  })

  it('has tokens of caches at their own prices', () => {
    const usage = { input: 1200, cachedInput: 1000, output: 345 }
    expect(price(usage, prices)).toBe(Math.ceil(200 * 2.5 + 1000 * 0.25 + 345 * 10))
    expect(price(usage, { input: 2, output: 10 })).toBe(1200 * 2 + 3450)
    const written = { input: 100, cacheWrite: 20, cacheWriteHour: 10, output: 0 }
    expect(price(written, { input: 4, output: 0 })).toBe(70 * 4 + 20 * 5 + 10 * 8)
    expect(price(written, { input: 4, output: 0, cacheWrite: 1, cacheWriteHour: 3 })).toBe(70 * 4 + 20 + 30)
    // More from a cache than there is.
    expect(price({ input: 1, cachedInput: 4, output: 0 }, prices)).toBe(1)
  })

  it('refuses a usage with other names, such as that of a provider', () => {
    const wrong = { prompt_tokens: 5, completion_tokens: 3 } as never
    expect(() => price(wrong, prices)).toThrow('usage.input: expected a whole number from 0')
  })

  it('refuses prices that are none', () => {
    for (const wrong of [-1, NaN, Infinity, '2', 2e6])
      expect(codeOf(() => price({ input: 1, output: 1 }, { ...prices, output: wrong as number }))).toBe(
        'INVALID_OPTION',
      )
  })
})

describe('the body of a denial', () => {
  const limiter = createLimiter({
    keyer: (key: string) => key,
    limits: fixedWindow({ name: 'tokens', quota: 10, window: '1m' }),
    store: memoryStore({ clock: virtualClock() }),
  })
  limiter.consume('ann', { cost: 10 })
  const denied = limiter.consume('ann')
  const never = limiter.consume('ann', { cost: 11 })

  it('has the shape of each API', () => {
    const message = 'Rate limit reached: tokens. Try again in 1 minute.'
    const error = { message, type: 'rate_limit_error', param: null, code: 'rate_limit_exceeded' }
    expect(denialBody('openai')(denied)).toEqual({ error })
    expect(denialBody('anthropic')(denied)).toEqual({ type: 'error', error: { type: 'rate_limit_error', message } })
    expect(JSON.stringify(denialBody('openai')(never))).toContain('tokens. Send a smaller request.')
  })

  it('refuses another API', () => {
    expect(() => denialBody('mistral' as 'openai')).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })
})
