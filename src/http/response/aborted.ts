/** The status of a response that was aborted before anything was sent. No standard defines one; nginx logs this one. */
export const ABORTED = 499
