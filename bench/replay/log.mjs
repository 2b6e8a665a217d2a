import { createWriteStream } from 'node:fs'
import { once } from 'node:events'
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus'

const MONTH = 'Nov'
const AGENT = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/131.0.0.0 Safari/537.36'
const LINES_PER_SECOND = 200

/**
 * Writes a log in the combined format: a few busy addresses and many quiet ones, with some lines out of order.
 * @param {string} path
 * @param {{ lines: number, addresses: number }} size
 */
export async function writeLog(path, { lines, addresses }) {
  const random = xoroshiro128plus(17)
  const next = () => (random.next() >>> 0) / 2 ** 32
  const file = createWriteStream(path)
  let text = ''
  for (let i = 0; i < lines; i++) {
    text += line(
      Math.max(0, Math.floor(i / LINES_PER_SECOND) - Math.floor(next() * 3)),
      Math.floor(addresses * next() ** 4),
      i,
    )
    if (text.length > 2 ** 20 || i === lines - 1) {
      if (!file.write(text)) await once(file, 'drain')
      text = ''
    }
  }
  file.end()
  await once(file, 'finish')
}

function line(second, address, i) {
  const two = (number) => String(number).padStart(2, '0')
  const day = 1 + Math.floor(second / 86_400)
  const clock = [second / 3600, second / 60, second].map((each, part) => two(Math.floor(each) % (part === 0 ? 24 : 60)))
  const ip = `10.${address >> 16}.${(address >> 8) & 255}.${address & 255}`
  const time = `${two(day)}/${MONTH}/2026:${clock.join(':')} +0000`
  return `${ip} - - [${time}] "GET /items/${i % 1000}?page=2 HTTP/1.1" 200 5120 "-" "${AGENT}"\n`
}
