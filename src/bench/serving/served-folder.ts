import { type ServedProcess, serveProcess } from "./served-process.js";
import { temporaryFolder } from "./temporary-folder.js";

/** Ends the server and waits for that; the folder is gone then. */
export interface Stoppable {
  stop(): Promise<void>;
}

/**
 * A server of a folder of its own. What breaks before `open` returns ends both.
 * @param open writes into the folder what is served, and starts the server by its configuration (see serveProcess); once.
 * @returns what `open` does, and how it is stopped.
 */
export async function serveFolder<T>(
  name: string,
  open: (folder: string, serve: (config: object) => Promise<ServedProcess>) => Promise<T>,
): Promise<T & Stoppable> {
  const { folder, remove } = temporaryFolder(name);
  let server: ServedProcess | null = null;
  const stop = async (): Promise<void> => {
    try {
      await server?.stop();
    } finally {
      remove();
    }
  };
  try {
    const opened = await open(folder, async (config) => {
      server = await serveProcess(folder, config, true);
      return server;
    });
    return { ...opened, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}
