/** The tests' way to tiny ONNX files; the benchmarks make theirs with the same builder. */
export * from "../../src/bench/onnx-builder.js";
