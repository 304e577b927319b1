/** The message of anything thrown. */
export const text = (error: unknown): string => (error instanceof Error ? error.message : String(error));
