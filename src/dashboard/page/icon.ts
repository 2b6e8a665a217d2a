export const icon: string = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16">
  <path fill="#2563eb" d="M1 15V9h3v6zm5 0V4h3v11z" />
  <path fill="#d9480f" d="M11 15V1h3v14z" />
</svg>
`
