/** Apps that a model tells apart by name: their kinds are 1 to this. */
export const APPS_MAX = 255;

export const APP_NAME_BOUND = "a text of 1 to 64 printable characters";

/** Of characters that are seen, and spaces; by code points. */
const APP_NAME = /^[^\p{C}\p{Zl}\p{Zp}]{1,64}$/u;

export const isAppName = (value: unknown): value is string => typeof value === "string" && APP_NAME.test(value);
