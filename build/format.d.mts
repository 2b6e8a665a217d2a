/** Returns a text in the format of the project. The name of its file says the language. Throws if the text cannot be parsed. */
export function formatted(text: string, file: string): Promise<string>
