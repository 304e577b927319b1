/**
 * ONNX Runtime, told before its library is loaded to keep to itself: by default it resolves its maker's host, queues
 * events under a device id in the home's cache and leaves debug files in the shared temporary folder.
 *
 * The library reads the environment of the process, of which threads have a copy: a thread's process must have been
 * started with the variable (WorkerProcess does), or have loaded this on its main thread.
 */
process.env.ORT_DISABLE_TELEMETRY = "1";

export const { default: ort } = await import("onnxruntime-node");
