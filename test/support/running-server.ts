import { type ServerConfig, serverConfigFrom } from "../../src/config/server/server.js";
import { parseSource } from "../../src/config/source.js";
import { type RunningServer, runServer } from "../../src/serve/running-server.js";

/** @param text a rubato.config.yaml, beside which models/ lies. gRPC takes any free port. */
export const configIn = (folder: string, text: string): ServerConfig =>
  serverConfigFrom(parseSource(text, "rubato.config.yaml"), folder, { cpus: 2, folder }, { grpcPort: 0 });

/** A real server of that folder, started; what breaks in it afterwards fails the test. */
export async function serveIn(folder: string, text: string): Promise<RunningServer> {
  const running = await runServer(configIn(folder, text), "test", (error) => {
    throw error;
  });
  await running.started;
  return running;
}
