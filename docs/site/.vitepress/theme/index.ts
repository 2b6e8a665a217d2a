import type { Theme } from 'vitepress'
import DefaultTheme from 'vitepress/theme'
import { Playground } from '../../playground/playground.ts'
import '../../playground/style.css'
import './style.css'

const theme: Theme = {
  extends: DefaultTheme,
  enhanceApp: ({ app }) => void app.component('Playground', Playground),
}

// VitePress reads the default export.
// oxlint-disable-next-line import/no-default-export
export default theme
