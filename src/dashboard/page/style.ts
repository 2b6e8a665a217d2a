export const style: string = `:root {
  color-scheme: light dark;
  --text: #1a1d21;
  --quiet: #565d66;
  --page: #f5f6f8;
  --card: #ffffff;
  --line: #d5d9df;
  --allowed: #2563eb;
  --allowed-area: #bfd3fb;
  --denied: #c2410c;
  --shadow: #7c3aed;
  --focus: #0b57d0;
  --button: #e8ebf0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --text: #e6e8eb;
    --quiet: #a5adb8;
    --page: #101215;
    --card: #1a1d22;
    --line: #3a404a;
    --allowed: #7aa8ff;
    --allowed-area: #24406f;
    --denied: #ff9a66;
    --shadow: #c4a5ff;
    --focus: #a8c7fa;
    --button: #2d323a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto;
  max-width: 64rem;
  padding: 0.75rem;
  background: var(--page);
  color: var(--text);
  font: 1rem/1.45 system-ui, sans-serif;
}
header { display: flex; flex-wrap: wrap; align-items: baseline; justify-content: space-between; gap: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0.25rem 0; }
h2 { font-size: 1.1rem; margin: 0 0 0.5rem; }
h3 { margin: 0; }
p { margin: 0.4rem 0; }
section {
  background: var(--card);
  border: 1px solid var(--line);
  border-radius: 0.5rem;
  padding: 0.75rem;
  margin: 0.75rem 0;
}
:focus-visible { outline: 3px solid var(--focus); outline-offset: 2px; }
main:focus { outline: none; }
.skip { position: absolute; left: -100rem; }
.skip:focus { left: 0.5rem; top: 0.5rem; background: var(--card); padding: 0.5rem; }
.quiet { color: var(--quiet); font-size: 0.875rem; }
#connection::before { content: '\\25CF\\00A0'; color: var(--quiet); }
#connection[data-state='live']::before { color: var(--allowed); }
#connection:is([data-state='lost'], [data-state='problem']) { color: var(--denied); font-weight: 600; }
#connection:is([data-state='lost'], [data-state='problem'])::before { content: '\\25B2\\00A0'; color: var(--denied); }
.problem {
  background: var(--card);
  border: 2px solid var(--denied);
  border-left-width: 0.5rem;
  border-radius: 0.5rem;
  padding: 0.6rem 0.75rem;
  margin: 0.75rem 0;
  overflow-wrap: anywhere;
}
.problem strong { color: var(--denied); font-size: 1.1rem; }
.problem p { margin: 0.2rem 0 0; }
.unseen { position: absolute; width: 1px; height: 1px; margin: 0; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: 0.5rem; margin: 0; }
.tiles dt { color: var(--quiet); font-size: 0.875rem; }
.tiles dd { margin: 0; font-size: 1.75rem; font-variant-numeric: tabular-nums; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding-bottom: 0.25rem; overflow-wrap: anywhere; }
th, td {
  text-align: right;
  padding: 0.3rem 0.25rem;
  border-top: 1px solid var(--line);
  overflow-wrap: anywhere;
  vertical-align: top;
}
thead th { border-top: 0; color: var(--quiet); font-weight: 600; font-size: 0.8125rem; overflow-wrap: normal; }
th:first-child { text-align: left; width: 36%; }
tbody th { font-weight: 500; }
#found th:first-child { width: 26%; }
.detail { display: block; color: var(--quiet); font-size: 0.8125rem; font-weight: 400; }
figure { margin: 0; }
svg { display: block; width: 100%; }
.chart { display: grid; grid-template-columns: auto 1fr; gap: 0 0.5rem; margin-top: 1rem; }
#plot-axis {
  display: flex;
  flex-direction: column;
  justify-content: space-between;
  margin: -0.65em 0;
  line-height: 1.3;
  text-align: right;
  font-variant-numeric: tabular-nums;
  white-space: nowrap;
}
#plot {
  border: solid var(--line);
  border-width: 1px 0;
  background: linear-gradient(var(--line), var(--line)) 0 50% / 100% 1px no-repeat;
}
#plot svg { height: 10rem; overflow: visible; }
.spark { height: 1.75rem; }
.area { fill: var(--allowed-area); stroke: var(--allowed); stroke-width: 1; }
.denied-line { fill: none; stroke: var(--denied); stroke-width: 2; }
.shadow-line { fill: none; stroke: var(--shadow); stroke-width: 2; stroke-dasharray: 4 3; }
.axis { display: flex; justify-content: space-between; margin: 0.5rem 0 0.2rem; grid-column: 2; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1rem; list-style: none; margin: 0.25rem 0; padding: 0; }
.key { display: inline-block; width: 1.25rem; margin-right: 0.4rem; vertical-align: middle; border-top: 3px solid; }
.key.allowed { border-color: var(--allowed); border-top-width: 0.6rem; }
.key.denied { border-color: var(--denied); }
.key.shadow { border-color: var(--shadow); border-top-style: dashed; }
.bad { color: var(--denied); font-weight: 600; }
label { display: inline-block; min-width: 5rem; }
input, select, button {
  font: inherit;
  color: inherit;
  border: 1px solid var(--quiet);
  border-radius: 0.35rem;
  padding: 0.35rem 0.6rem;
  max-width: 100%;
}
input, select { background: var(--page); width: 20rem; }
button { background: var(--button); cursor: pointer; min-height: 2.25rem; }
td button { padding: 0.1rem 0.4rem; min-height: 2rem; font-size: 0.875rem; }
button.danger { background: var(--card); border-color: var(--denied); color: var(--denied); font-weight: 600; }
dialog {
  background: var(--card);
  color: var(--text);
  border: 1px solid var(--line);
  border-radius: 0.5rem;
  max-width: min(30rem, 92vw);
  overflow-wrap: anywhere;
}
dialog::backdrop { background: rgb(0 0 0 / 0.45); }
.buttons { display: flex; gap: 0.5rem; justify-content: flex-end; }
summary { cursor: pointer; padding: 0.25rem 0; }
ul { padding-left: 1.1rem; margin: 0.25rem 0; overflow-wrap: anywhere; }
@media (max-width: 40rem) {
  .stacked thead { position: absolute; clip-path: inset(50%); }
  .stacked, .stacked caption, .stacked tbody { display: block; }
  .stacked tr { display: grid; grid-template-columns: repeat(auto-fit, minmax(4rem, 1fr)); border-top: 1px solid var(--line); padding: 0.4rem 0; }
  .stacked th, .stacked td { border: 0; text-align: left; padding: 0.1rem 0.25rem 0.1rem 0; }
  .stacked tbody th { grid-column: 1 / -1; width: auto; }
  .stacked td::before { content: attr(data-label); display: block; color: var(--quiet); font-weight: 400; font-size: 0.8125rem; white-space: nowrap; }
}
[hidden] { display: none !important; }
`
