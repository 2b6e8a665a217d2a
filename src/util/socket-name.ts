/** The most bytes in the name of a socket file. With the NUL at the end, macOS allows 104 and Linux 108. Node cuts a longer name off. */
export const LONGEST_SOCKET_NAME = 103
