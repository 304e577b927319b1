/** The tests' way to tiny ONNX files; the benchmarks make theirs with the same builder. */
export * from "../../src/bench/serving/onnx-builder.js";
