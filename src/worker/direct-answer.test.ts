import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Worker } from "node:worker_threads";
import { expect, test } from "vitest";

const BYTES = 3_000_000;
const MODULE = new URL("../../dist/worker/direct-answer.js", import.meta.url).href;

test("a socket that is full is waited for: every byte arrives, in order", async () => {
  const folder = mkdtempSync(path.join(tmpdir(), "rubato-direct-"));
  const server = createServer();
  server.listen(path.join(folder, "socket"));
  await once(server, "listening");
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const near = connect(path.join(folder, "socket"));
  const [far] = await accepted;
  far.pause();
  const { fd } = (near as unknown as { _handle: { fd: number } })._handle;
  const writer = new Worker(
    `const { parentPort, workerData } = require("node:worker_threads");
       const bytes = new Uint8Array(${BYTES}).map((_, i) => i % 251);
       import(workerData.module).then(({ writeWhole }) => {
         writeWhole(workerData.fd, bytes);
         parentPort.postMessage("written");
       });`,
    { eval: true, workerData: { fd, module: MODULE } },
  );
  try {
    const writing = once(writer, "message");
    // Nobody reads: the kernel's buffer is long full when this is over.
    await new Promise((resolve) => setTimeout(resolve, 200));
    const hash = createHash("sha256");
    let got = 0;
    await new Promise<void>((resolve) => {
      far.on("data", (chunk) => {
        hash.update(chunk);
        got += chunk.length;
        if (got >= BYTES) resolve();
      });
      far.resume();
    });
    expect(await writing).toEqual(["written"]);
    expect(got).toBe(BYTES);
    const expected = new Uint8Array(BYTES).map((_, i) => i % 251);
    expect(hash.digest("hex")).toBe(createHash("sha256").update(expected).digest("hex"));
  } finally {
    near.destroy();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
