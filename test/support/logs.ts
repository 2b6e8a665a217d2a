const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Returns a line of the common log format. */
export function clfLine(time: number, ip: string, path: string, method = 'GET'): string {
  const [date, clock] = new Date(time).toISOString().slice(0, 19).split('T') as [string, string]
  const [year, month, day] = date.split('-') as [string, string, string]
  return `${ip} - - [${day}/${MONTHS[Number(month) - 1]}/${year}:${clock} +0000] "${method} ${path} HTTP/1.1" 200 2`
}
