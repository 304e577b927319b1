/**
 * Runs the models of the repository in this process, behind the interface of the examples' client. It stands where the
 * server will stand, so that what examples do before and after a model is tested apart from serving.
 */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { InferenceSession, Tensor } from "onnxruntime-node";
import { parse } from "yaml";
import { ort } from "../../src/worker/onnx/onnx-runtime.js";

export const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))));
export const modelsDir = path.join(root, "models");

export interface InputTensor {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: Float32Array | BigInt64Array;
}
export interface OutputTensor {
  readonly shape: readonly number[];
  readonly data: Float32Array;
}
export interface Answer {
  readonly outputs: Readonly<Record<string, OutputTensor>>;
  readonly ms: number;
}
export type Infer = (model: string, inputs: readonly InputTensor[]) => Promise<Answer>;

export interface RubatoYaml {
  readonly slo_ms: number;
  readonly group: string;
  readonly batch_max: number;
  readonly platform?: string;
  readonly elastic?: object;
  readonly model_file?: string;
  readonly tail_file?: string;
  readonly emulated?: { readonly alpha_ms: number; readonly beta_ms: number };
  readonly inputs: Readonly<
    Record<
      string,
      { batch_axis: number | "none"; variable_axis?: number; mode?: string; buckets?: number[]; pad_value?: number }
    >
  >;
  readonly outputs: Readonly<Record<string, { batch_axis: number }>>;
}

export function rubatoYaml(model: string): RubatoYaml {
  return parse(readFileSync(path.join(modelsDir, model, "rubato.yaml"), "utf8")) as RubatoYaml;
}

/** The file that `model_file` names: in a package of this project, or in the repository. */
export function modelFile(model: string): string {
  const named = rubatoYaml(model).model_file;
  const file = named?.startsWith("npm:")
    ? path.join(root, "node_modules", named.slice("npm:".length))
    : path.join(modelsDir, model, "1", "model.onnx");
  if (!existsSync(file)) throw new Error(`${model}: there is no ${file}`);
  return file;
}

const sessions = new Map<string, Promise<InferenceSession>>();
export function session(model: string): Promise<InferenceSession> {
  const open =
    sessions.get(model) ??
    ort.InferenceSession.create(modelFile(model), { intraOpNumThreads: 1, interOpNumThreads: 1 });
  sessions.set(model, open);
  return open;
}

/** What goes on from the model's outputs, by itself; null: nothing does. */
export async function tailOf(model: string): Promise<InferenceSession | null> {
  const { tail_file: tail } = rubatoYaml(model);
  return tail === undefined ? null : ort.InferenceSession.create(path.join(modelsDir, model, tail));
}

export const inferDirectly: Infer = async (model, inputs) => {
  const feeds: Record<string, Tensor> = {};
  for (const { name, datatype, shape, data } of inputs) {
    if (datatype === "INT64") feeds[name] = new ort.Tensor("int64", data as BigInt64Array, shape);
    else if (datatype === "FP32") feeds[name] = new ort.Tensor("float32", data as Float32Array, shape);
    else throw new Error(`${model}.${name}: no model here takes ${datatype}`);
  }
  const answers = await (await session(model)).run(feeds);
  const outputs = Object.entries(answers).map(([name, { dims, data }]) => [
    name,
    { shape: [...dims], data: data as Float32Array },
  ]);
  return { outputs: Object.fromEntries(outputs), ms: 0 };
};

/** An example's module: plain JavaScript, so its types are stated by the caller. */
export async function example<T>(name: string): Promise<T> {
  return (await import(new URL(`../../examples/${name}`, import.meta.url).href)) as T;
}
