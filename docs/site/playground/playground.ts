import { computed, defineComponent, h, onBeforeUnmount, onMounted, reactive, ref, shallowRef, type VNode } from 'vue'
import type { Limit } from 'sluice'
import { checkedLimits, compare } from './compare.ts'
import { programOf } from './forms.ts'
import { limitFields } from './limit-fields.ts'
import { decisionTable, results, summaryText } from './results.ts'
import { fromHash, type Scenario, toHash } from './share.ts'
import { type Draft, trafficFields } from './traffic-fields.ts'
import { presets } from './traffic.ts'

const start: Scenario = {
  forms: [{ algorithm: 'gcra', values: { quota: '10', window: '10s' } }],
  traffic: presets['Edge of a window']!({ quota: 10, window: 10_000 }),
}

/** Runs the engine on a virtual clock and shows what it decides about the traffic that the user chooses. */
export const Playground = defineComponent({
  name: 'Playground',
  setup() {
    const scenario = shallowRef<Scenario>(start)
    const everyAlgorithm = ref(true)
    const isOpen = ref(false)
    const notice = ref('')
    const isReady = ref(false)
    const draft = reactive<Draft>({
      text: '',
      wrong: undefined,
      span: undefined,
      drawing: { column: 0, stroke: undefined },
    })

    const checked = computed(() => checkedLimits(scenario.value.forms))
    const isValid = computed(() => checked.value.limits !== undefined)
    /** The last limits without a mistake: their decisions are shown. */
    const good = shallowRef({ forms: start.forms, limits: checked.value.limits! })
    const all = computed(() =>
      compare(good.value.forms, good.value.limits, scenario.value.traffic.times, everyAlgorithm.value),
    )

    function set(change: Partial<Scenario>): void {
      scenario.value = { ...scenario.value, ...change }
      const { limits } = checked.value
      if (limits !== undefined) good.value = { forms: scenario.value.forms, limits }
      notice.value = ''
    }

    function open(): void {
      if (!location.hash.includes('limits=')) return
      const opened = fromHash(location.hash)
      if (opened === undefined) notice.value = 'The link is not valid. Expected a link from "Copy a link".'
      else set(opened)
    }

    async function copy(text: string, done: string): Promise<void> {
      try {
        await navigator.clipboard.writeText(text)
        notice.value = done
      } catch {
        notice.value = 'The browser does not permit to copy. Select the text and copy it.'
      }
    }

    function copyLink(): void {
      history.replaceState(history.state, '', toHash(scenario.value))
      void copy(location.href, 'The link is copied.')
    }

    onMounted(() => {
      open()
      isReady.value = true
      addEventListener('hashchange', open)
    })
    onBeforeUnmount(() => removeEventListener('hashchange', open))

    return () => {
      const { forms, traffic } = scenario.value
      const target = good.value.limits[0]!
      return h('div', { class: 'playground', 'aria-busy': !isReady.value }, [
        h('h2', { id: 'limits' }, 'Limits'),
        limitFields(forms, checked.value, (changed) => set({ forms: changed })),
        h('h2', { id: 'traffic' }, 'Traffic'),
        trafficFields(traffic, target, draft, (changed) => set({ traffic: changed })),
        h('h2', { id: 'decisions' }, 'Decisions'),
        decisions(target),
        h('h2', { id: 'code' }, 'Code'),
        code(programOf(forms)),
      ])
    }

    function decisions(target: Pick<Limit, 'quota' | 'window'>): VNode {
      const own = all.value[0]!
      const toggle = {
        type: 'checkbox',
        checked: everyAlgorithm.value,
        onChange: () => (everyAlgorithm.value = !everyAlgorithm.value),
      }
      const counts = own.summary === undefined ? own.wrong : `Your limits: ${summaryText(own.summary, target.window)}`
      return h('div', [
        isValid.value
          ? undefined
          : h('p', { class: 'hint' }, 'These are the decisions of the last limits without a mistake.'),
        h('p', { class: 'own', role: 'status' }, counts),
        h('label', { class: 'toggle' }, [
          h('input', toggle),
          ' Compare with all algorithms, with the quota and the window of limit 1',
        ]),
        results(all.value, scenario.value.traffic.span, target.window),
        h('details', { onToggle: (event: Event) => (isOpen.value = (event.target as HTMLDetailsElement).open) }, [
          h('summary', 'Every decision of your limits'),
          isOpen.value && own.verdicts !== undefined ? decisionTable(own.verdicts) : undefined,
        ]),
      ])
    }

    function code(program: string): VNode {
      const disabled = !isValid.value
      return h('div', [
        disabled ? undefined : h('pre', { class: 'program', tabindex: 0 }, h('code', program)),
        h('div', { class: 'presets' }, [
          h(
            'button',
            { type: 'button', disabled, onClick: () => void copy(program, 'The code is copied.') },
            'Copy the code',
          ),
          h('button', { type: 'button', disabled, onClick: copyLink }, 'Copy a link'),
        ]),
        h('p', { class: 'hint', role: 'status' }, notice.value),
      ])
    }
  },
})
