import { h, type VNode } from 'vue'
import { algorithms, type Field, fieldsOf, isShown } from './catalog.ts'
import type { Checked, Mistake } from './compare.ts'
import { type LimitForm, withAlgorithm } from './forms.ts'
import { LONGEST_OPTION, MOST_LIMITS } from './share.ts'

/** Renders the form of all limits. */
export function limitFields(
  forms: readonly LimitForm[],
  { errors, together }: Checked,
  change: (forms: readonly LimitForm[]) => void,
): VNode {
  const replace = (index: number, form: LimitForm): void => change(forms.with(index, form))
  const remove = (index: number): void => change(forms.toSpliced(index, 1))
  const add = (): void => change([...forms, { algorithm: 'gcra', values: { quota: '3', window: '1s' } }])
  return h('div', { class: 'limits' }, [
    ...forms.map((form, index) =>
      oneLimit(form, index, errors[index], (changed) => replace(index, changed), forms.length > 1 ? remove : undefined),
    ),
    h('button', { type: 'button', disabled: forms.length >= MOST_LIMITS, onClick: add }, 'Add a limit'),
    together === undefined ? undefined : wrong('limits-error', together),
  ])
}

function oneLimit(
  form: LimitForm,
  index: number,
  error: Mistake | undefined,
  change: (form: LimitForm) => void,
  remove: ((index: number) => void) | undefined,
): VNode {
  const id = `limit-${index}`
  const set = (name: string, text: string): void => change({ ...form, values: { ...form.values, [name]: text } })
  const messageFor = (name: string): string | undefined => (error?.field === name ? error.message : undefined)
  const other = error !== undefined && error.field === undefined ? error.message : undefined
  return h('fieldset', { class: 'limit', 'aria-describedby': other && `${id}-error` }, [
    h('legend', `Limit ${index + 1}`),
    h('div', { class: 'fields' }, [
      algorithmField(form, id, change),
      ...fieldsOf(form.algorithm)
        .filter((field) => isShown(field, form.values))
        .map((field) => optionField(field, form.values[field.name] ?? '', id, messageFor(field.name), set)),
      remove && h('button', { type: 'button', onClick: () => remove(index) }, `Remove limit ${index + 1}`),
    ]),
    other === undefined ? undefined : wrong(`${id}-error`, other),
  ])
}

/** Renders what is wrong with a field that names this id in `aria-describedby`. */
export function wrong(id: string, message: string): VNode {
  return h('p', { id, class: 'wrong', role: 'alert' }, message)
}

function algorithmField(form: LimitForm, id: string, change: (form: LimitForm) => void): VNode {
  const choices = Object.keys(algorithms).map((name) => h('option', { value: name }, name))
  const onChange = (event: Event): void => change(withAlgorithm(form, valueIn(event)))
  return labelled(`${id}-algorithm`, 'algorithm', undefined, [
    h('select', { id: `${id}-algorithm`, value: form.algorithm, onChange }, choices),
  ])
}

function optionField(
  field: Field,
  text: string,
  id: string,
  error: string | undefined,
  set: (name: string, text: string) => void,
): VNode {
  const { name, kind, choices, fallback } = field
  const own = `${id}-${name}`
  if (choices !== undefined) {
    const options = ['', ...choices].map((choice) => h('option', { value: choice }, choice || `${fallback} (default)`))
    return labelled(own, name, error, [
      h(
        'select',
        { ...describedBy(own, error), id: own, value: text, onChange: (event: Event) => set(name, valueIn(event)) },
        options,
      ),
    ])
  }
  const attributes = {
    ...describedBy(own, error),
    id: own,
    value: text,
    placeholder: fallback,
    maxlength: LONGEST_OPTION,
    inputmode: kind === 'number' ? 'numeric' : undefined,
    autocomplete: 'off',
    spellcheck: false,
    onInput: (event: Event) => set(name, valueIn(event)),
  }
  return labelled(own, name, error, [h('input', attributes)])
}

/** Renders a label above a field, and what is wrong below it. */
export function labelled(id: string, label: string, error: string | undefined, field: readonly VNode[]): VNode {
  const message = error === undefined ? undefined : wrong(`${id}-error`, error)
  return h('div', { class: 'field' }, [h('label', { for: id }, label), ...field, message])
}

/** Attributes of a field that has a mistake. */
export function describedBy(id: string, error: string | undefined): Record<string, string> {
  return error === undefined ? {} : { 'aria-invalid': 'true', 'aria-describedby': `${id}-error` }
}

/** Returns the text of the field that an event is about. */
export function valueIn(event: Event): string {
  return (event.target as HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement).value
}
