/**
 * The four pipelines of PARD's evaluation (§5.1): graphs and SLOs are the paper's. It gives no profiles; each module has one of Symphony's for
 * the 1080Ti (the paper's GPUs are 2080Ti), of a model such as is used for its task, heavy ones first as detection is.
 */
import { ZOO } from "../../config/scenario/zoo.js";

export interface ApplicationModule {
  readonly name: string;
  /** Of Symphony's zoo for the 1080Ti. */
  readonly model: string;
  /** Time of a batch of b: alphaMs b + betaMs. */
  readonly alphaMs: number;
  readonly betaMs: number;
  /** Positions of the modules that it leads to. */
  readonly subs: readonly number[];
}

export interface Application {
  readonly name: string;
  readonly title: string;
  readonly sloMs: number;
  readonly modules: readonly ApplicationModule[];
  /** Part of the requests that takes each way out of the first module; absent: all take all. */
  readonly branch?: readonly number[];
}

function moduleOf(name: string, model: string, subs: readonly number[]): ApplicationModule {
  const { alphaMs, betaMs } = ZOO["1080ti"].find((each) => each.name === model)!;
  return { name, model, alphaMs, betaMs, subs };
}

const chain = (...modules: readonly (readonly [name: string, model: string])[]): ApplicationModule[] =>
  modules.map(([name, model], at) => moduleOf(name, model, at + 1 < modules.length ? [at + 1] : []));

export const TM: Application = {
  name: "tm",
  title: "traffic monitoring",
  sloMs: 400,
  modules: chain(["objects", "InceptionResNetV2"], ["faces", "ResNet50"], ["text", "DenseNet169"]),
};

export const LV: Application = {
  name: "lv",
  title: "live video",
  sloMs: 500,
  modules: chain(
    ["persons", "InceptionResNetV2"],
    ["faces", "ResNet50"],
    ["expression", "MobileNetV3Large"],
    ["eyes", "MobileNetV2"],
    ["pose", "ResNet101V2"],
  ),
};

export const GA: Application = {
  name: "ga",
  title: "game analysis",
  sloMs: 600,
  modules: chain(
    ["objects", "InceptionResNetV2"],
    ["kills", "DenseNet121"],
    ["players", "EfficientNetB0"],
    ["health", "MobileNetV3Small"],
    ["icons", "ResNet50V2"],
  ),
};

/** "From person detection simultaneously to pose and face recognition, [...] merged in expression recognition": lv's other module follows. */
const SPLIT = [
  moduleOf("persons", "InceptionResNetV2", [1, 2]),
  moduleOf("pose", "ResNet101V2", [3]),
  moduleOf("faces", "ResNet50", [3]),
  moduleOf("expression", "MobileNetV3Large", [4]),
  moduleOf("eyes", "MobileNetV2", []),
];

export const DA: Application = { name: "da", title: "live video, a graph", sloMs: 420, modules: SPLIT };
/** §5.2: "each request probabilistically takes either the pose or face branch". */
export const DA_DYNAMIC: Application = {
  ...DA,
  name: "da-dynamic",
  title: "live video, one way of two",
  branch: [0.5, 0.5],
};

export const APPLICATIONS: readonly Application[] = [TM, LV, GA, DA];
