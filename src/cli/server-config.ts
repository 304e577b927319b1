/** The server configuration that a command works with: the file it names or finds, and what its options override. */
import { existsSync } from "node:fs";
import { availableParallelism } from "node:os";
import { loadServerConfig, SERVER_CONFIG_NAME, type ServerConfig } from "../config/server/server.js";

export interface ServerConfigOptions {
  readonly models?: string;
  readonly http?: number;
  readonly grpc?: number;
  readonly host?: string;
  readonly config?: string;
}

export const CONFIG_OPTION = [
  "--config <file>",
  `configuration file (default: ${SERVER_CONFIG_NAME} in this folder, if there is one)`,
] as const;

export function serverConfigOf(options: ServerConfigOptions): ServerConfig {
  const file = options.config ?? (existsSync(SERVER_CONFIG_NAME) ? SERVER_CONFIG_NAME : null);
  return loadServerConfig(
    file,
    { cpus: availableParallelism(), folder: process.cwd() },
    {
      ...(options.models === undefined ? {} : { models: options.models }),
      ...(options.http === undefined ? {} : { httpPort: options.http }),
      ...(options.grpc === undefined ? {} : { grpcPort: options.grpc }),
      ...(options.host === undefined ? {} : { host: options.host }),
    },
  );
}
