/** An elastic model's folder opened in this process: the graph with its tasks as a worker runs them, and images of each. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { type ElasticSpec, HEAD_FILE, LOGITS, promptsFile, variantOf } from "../../../config/elastic.js";
import { readModel } from "../../../serve/repository/model-reader.js";
import { BoundTasks } from "../../../worker/onnx/bound-tasks.js";
import { ort } from "../../../worker/onnx/onnx-runtime.js";
import { type ElasticTask, elasticReference, type MergeMargins } from "./elastic-reference.js";
import { type ElasticGeometry, type ElasticWeights, floats, weightsInModel } from "./elastic-weights.js";
import { readLabelledImages } from "./labelled-images.js";

type Session = Awaited<ReturnType<typeof ort.InferenceSession.create>>;

export interface TaskImage {
  /** Name of its task. */
  readonly task: string;
  /** In 0..1. */
  readonly pixels: Float32Array;
  readonly label: number;
}

interface FolderTask extends ElasticTask {
  readonly name: string;
  readonly folder: string;
}

export class ElasticFolder {
  readonly elastic: ElasticSpec;
  readonly tasks: readonly FolderTask[];
  private readonly folder: string;
  private readonly geometry: ElasticGeometry;
  private readonly weights: ElasticWeights;
  private readonly session: Session;
  private readonly bound: BoundTasks;

  private constructor(folder: string, geometry: ElasticGeometry, elastic: ElasticSpec, session: Session) {
    this.folder = folder;
    this.geometry = geometry;
    this.elastic = elastic;
    this.session = session;
    this.tasks = tasksIn(path.join(folder, "tasks"), elastic.width);
    this.weights = weightsInModel(readFileSync(modelFile(folder)), geometry);
    this.bound = new BoundTasks(elastic);
    this.bound.bind(this.tasks.map(({ folder: own, classes }, kind) => ({ kind, folder: own, classes })));
  }

  /** On one thread. @throws where the folder is not one that is served. */
  static async open(folder: string, geometry: ElasticGeometry): Promise<ElasticFolder> {
    const { elastic } = readModel(path.dirname(folder), path.basename(folder));
    if (elastic === undefined) throw new Error(`${folder}: must be an elastic model`);
    const session = await ort.InferenceSession.create(modelFile(folder), {
      intraOpNumThreads: 1,
      interOpNumThreads: 1,
      executionMode: "sequential",
    });
    return new ElasticFolder(folder, geometry, elastic, session);
  }

  close(): Promise<void> {
    return this.session.release();
  }

  /** One run: logits of each image, of its own task's classes. */
  async run(images: readonly TaskImage[], gamma: number): Promise<Float32Array[]> {
    const { side } = this.geometry;
    const pixels = new Float32Array(images.length * side * side);
    for (const [at, image] of images.entries()) pixels.set(image.pixels, at * side * side);
    const kinds = images.map(({ task }) => this.tasks.findIndex(({ name }) => name === task));
    const ones = images.map(() => 1);
    const { [LOGITS]: logits } = await this.session.run({
      image: new ort.Tensor("float32", pixels, [images.length, 1, side, side]),
      ...this.bound.feeds(variantOf(this.elastic, gamma), kinds, ones, images.length),
    });
    const columns = logits!.dims[1]!;
    const values = logits!.data as Float32Array;
    return kinds.map((kind, row) => values.slice(row * columns, row * columns + this.tasks[kind]!.classes));
  }

  /** The same by plain loops. @param otherWayIn, @param margins see elasticReference. */
  reference(
    { task: name, pixels }: TaskImage,
    gamma: number,
    otherWayIn = -1,
    margins: MergeMargins = [],
  ): Float64Array {
    const task = this.tasks.find((each) => each.name === name)!;
    const prompts = gamma > 0 ? { prompts: floats(readFileSync(path.join(task.folder, promptsFile(gamma)))) } : {};
    const adaptation = { r: Math.max(0, -gamma), otherWayIn, ...prompts };
    return elasticReference(this.geometry, this.weights, pixels, task, adaptation, margins);
  }

  /** The first images of a task. @param from a folder as of readLabelledImages. */
  images(task: string, count: number, from = path.join(this.folder, "images")): TaskImage[] {
    const { labels, pixels } = readLabelledImages(from, task, this.geometry.side);
    return Array.from(labels.subarray(0, count), (label, at) => ({ task, label, pixels: pixels(at) }));
  }
}

const modelFile = (folder: string): string => path.join(folder, "1", "model.onnx");

function tasksIn(folder: string, width: number): FolderTask[] {
  return readdirSync(folder)
    .sort()
    .map((name) => {
      const own = path.join(folder, name);
      const { classes } = JSON.parse(readFileSync(path.join(own, "task.json"), "utf8")) as { classes: string[] };
      const values = floats(readFileSync(path.join(own, HEAD_FILE)));
      const head = values.subarray(0, width * classes.length);
      return { name, folder: own, classes: classes.length, head, bias: values.subarray(head.length) };
    });
}
