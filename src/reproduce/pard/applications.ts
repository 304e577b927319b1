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
  /** In place of `branch`: kinds of requests, as many of each, that take the ways as often as they say. */
  readonly classes?: Readonly<Record<string, readonly number[]>>;
  /** A request makes as many parts as one of these numbers, each as often, that go from one module on until another that joins. */
  readonly parts?: { readonly from: number; readonly join: number; readonly counts: readonly number[] };
  /** Modules, by position, whose requests take one of several times. */
  readonly modes?: { readonly modules: readonly number[]; readonly of: readonly Mode[] };
}

/** A request takes so many times as long as another, so often. */
export interface Mode {
  readonly weight: number;
  readonly factor: number;
}

/** Part of the requests that takes each way out of the first module, whatever their kind; undefined: all take all. */
export function waysOf({ branch, classes }: Application): readonly number[] | undefined {
  if (classes === undefined) return branch;
  const kinds = Object.values(classes);
  return kinds[0]!.map((_, way) => kinds.reduce((sum, kind) => sum + kind[way]!, 0) / kinds.length);
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

/** The two ways taken unevenly, and by two kinds of requests that mostly take one each. */
export const DA_UNEVEN: Application = {
  ...DA_DYNAMIC,
  name: "da-uneven",
  title: "the pose way rarely",
  branch: [0.1, 0.9],
};
export const DA_CLASSES: Application = {
  ...DA,
  name: "da-classes",
  title: "two kinds, mostly a way each",
  classes: { moving: [0.9, 0.1], still: [0.1, 0.9] },
};
/** One way is much longer than the other: who is not looked at closely goes from the first module to the last. */
export const DA_EXIT: Application = {
  ...DA,
  name: "da-exit",
  title: "two kinds, one of which mostly goes to the end at once",
  modules: [{ ...SPLIT[0]!, subs: [4, 1] }, { ...SPLIT[1]!, subs: [2] }, ...SPLIT.slice(2)],
  classes: { plain: [0.95, 0.05], rich: [0.05, 0.95] },
};

/** A batch of the planned size: most often all take the shortest time, sometimes one takes twice or four times as long. */
const THREE_MODES: readonly Mode[] = [
  { weight: 0.88, factor: 1 },
  { weight: 0.1, factor: 2 },
  { weight: 0.02, factor: 4 },
];
export const TM_MODES: Application = {
  ...TM,
  name: "tm-modes",
  title: "three times in two modules",
  modes: { modules: [1, 2], of: THREE_MODES },
};
export const LV_MODES: Application = {
  ...LV,
  name: "lv-modes",
  title: "three times in two modules",
  modes: { modules: [1, 4], of: THREE_MODES },
};

/** As models/ocr: lines are found on a page, turned and read one by one, and put together. */
export const OCR: Application = {
  name: "ocr",
  title: "pages of 0 to 20 lines",
  sloMs: 400,
  modules: chain(
    ["detect", "InceptionResNetV2"],
    ["direction", "MobileNetV3Small"],
    ["read", "ResNet50"],
    ["lines", "MobileNetV2"],
  ),
  parts: { from: 1, join: 3, counts: Array.from({ length: 21 }, (_, lines) => lines) },
};
