/** A program for a browser: returns the texts in the playground with a contrast below 4.5, the least that WCAG 2.2 permits (1.4.3). */
export const LOW_CONTRAST: string = `(() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number)
  const light = (color) => {
    const [r, g, b] = channels(color).slice(0, 3).map((each) => {
      const part = each / 255
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const background = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = getComputedStyle(each).backgroundColor
      if ((channels(color)[3] ?? 1) === 1) return color
    }
    return 'rgb(255, 255, 255)'
  }
  const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== '')
  const texts = [...document.querySelectorAll('.playground *')].filter((each) => hasText(each) || 'value' in each)
  if (texts.length < 40) throw new Error('There is no playground')
  return texts
    .filter((each) => !each.disabled)
    .map((element) => {
      const [a, b] = [getComputedStyle(element).color, background(element)].map(light).sort((a, b) => b - a)
      return [element.textContent || element.value, (a + 0.05) / (b + 0.05)]
    })
    .filter(([, contrast]) => contrast < 4.5)
})()`
