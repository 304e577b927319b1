import { describe, expect, it } from "vitest";
import { parseTarget } from "../target.js";
import { parseDataFile } from "./data-file.js";
import { type InputOptions, makeSamples, parseLengths, parseParameter, parseRange, parseShape } from "./inputs.js";

const options: InputOptions = {
  data: "random",
  shapes: new Map(),
  ranges: new Map(),
  lengths: null,
  samples: 4,
  seed: 1,
  target: 0,
};
const metadata = (datatype: string, shape: number[], name = "x") => ({
  hasBinaryData: true,
  inputs: [{ name, datatype, shape }],
});
const bytesOf = (datatype: string, data: "random" | "zero" = "random", name = "x") =>
  makeSamples("m", metadata(datatype, [-1, 50], name), { ...options, data })[0]!.tensors[0]!.data;

/** IEEE half to number, by its definition. */
const halfValue = (bits: number) => {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  return exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
};

describe("inputs", () => {
  it("random floats of every width lie in [0, 1) and spread over it", () => {
    const view = (datatype: string) => new DataView(bytesOf(datatype).buffer);
    const read: Record<string, (at: number) => number> = {
      FP64: (at) => view("FP64").getFloat64(at * 8, true),
      FP32: (at) => view("FP32").getFloat32(at * 4, true),
      FP16: (at) => halfValue(view("FP16").getUint16(at * 2, true)),
      BF16: (at) => {
        const wide = new DataView(new ArrayBuffer(4));
        wide.setUint32(0, view("BF16").getUint16(at * 2, true) << 16);
        return wide.getFloat32(0);
      },
    };
    for (const valueAt of Object.values(read)) {
      const values = Array.from({ length: 50 }, (_, at) => valueAt(at));
      expect(Math.min(...values)).toBeGreaterThanOrEqual(0);
      expect(Math.max(...values)).toBeLessThan(1);
      const center = values.reduce((a, b) => a + b, 0) / 50;
      expect(center).toBeGreaterThan(0.35);
      expect(center).toBeLessThan(0.65);
    }
  });

  it("integers stay within small vocabularies, masks are ones, token types zeros", () => {
    const ids = new BigInt64Array(bytesOf("INT64").buffer);
    expect(ids.every((id) => id >= 0n && id < 1000n)).toBe(true);
    expect(new Set(ids).size).toBeGreaterThan(30);
    expect(new Set(new BigInt64Array(bytesOf("INT64", "random", "attention_mask").buffer))).toEqual(new Set([1n]));
    expect(new Set(new BigInt64Array(bytesOf("INT64", "random", "token_type_ids").buffer))).toEqual(new Set([0n]));
  });

  it("strings carry their lengths", () => {
    const bytes = Buffer.from(bytesOf("BYTES"));
    expect(bytes.byteLength).toBe(50 * 12);
    expect(bytes.readUInt32LE(0)).toBe(8);
    expect(bytes.subarray(4, 12).toString()).toMatch(/^[a-z]{8}$/);
  });

  it("zero needs only one sample; random makes distinct ones, the same for the same seed wherever they go", () => {
    expect(makeSamples("m", metadata("FP32", [-1, 8]), { ...options, data: "zero" })).toHaveLength(1);
    const samples = makeSamples("m", metadata("FP32", [-1, 8]), options);
    expect(samples).toHaveLength(4);
    expect(samples[0]).not.toEqual(samples[1]);
    expect(makeSamples("elsewhere", metadata("FP32", [-1, 8]), options)).toEqual(samples);
    expect(makeSamples("m", metadata("FP32", [-1, 8]), { ...options, target: 1 })).not.toEqual(samples);
  });

  it("keeps fewer samples when they are large, at least one", () => {
    expect(makeSamples("m", metadata("UINT8", [90 * 2 ** 20]), { ...options, data: "zero" })).toHaveLength(1);
    const lengths = () => 70 * 2 ** 20;
    expect(makeSamples("m", metadata("UINT8", [1, -1]), { ...options, data: "zero", lengths })).toHaveLength(1);
  });

  it("reads lengths: a number, a range, a file", () => {
    const none = () => "";
    expect(parseLengths("7", none)(0.99)).toBe(7);
    const range = parseLengths("uniform:4:6", none);
    expect([range(0), range(0.5), range(0.999)]).toEqual([4, 5, 6]);
    const file = parseLengths("f.csv", () => "length,text\n12,a\n34,b\n");
    expect([file(0), file(0.9)]).toEqual([12, 34]);
    expect(() => parseLengths("uniform:9:4", none)).toThrow("1 <= LOW <= HIGH");
    expect(() => parseLengths("f.csv", () => "12\n-3\n")).toThrow("f.csv: line 2: a length must be a whole number in");
    expect(() => parseLengths("f.csv", none)).toThrow("holds no lengths");
  });

  it("reads shapes, also of names with colons", () => {
    expect(parseShape("a:b:1,32")).toEqual(["a:b", [1, 32]]);
    expect(() => parseShape("x:1,-1")).toThrow("was 'x:1,-1'");
    expect(() => parseShape("x:65536,65536")).toThrow("at most 2^28 elements");
  });

  it("reads elements of BYTES that are no text, and refuses what is no base64 or of another number", () => {
    const read = (shape: string, data: string) =>
      parseDataFile("f", `{"inputs":[{"name":"x","shape":[${shape}],"data":[${data}]}]}`, metadata("BYTES", [-1]));
    expect([...read("2", '{"b64":"/w=="},{"b64":""}')[0]!.tensors[0]!.data]).toEqual([1, 0, 0, 0, 255, 0, 0, 0, 0]);
    expect(() => read("2", '{"b64":"/w=="},{"b64":"/w"}')).toThrow(
      'f: line 1: inputs[0].data[1] must be {"b64": "..."}',
    );
    expect(() => read("2", '{"b64":"/w=="},"a"')).toThrow('inputs[0].data[1] must be {"b64": "..."}');
    expect(() => read("3", '{"b64":"/w=="}')).toThrow("inputs[0].data must have 3 elements for shape [3]; has 1");
  });

  it.each([
    ["task=digits", ["task", "digits"]],
    ["utility=2", ["utility", 2]],
    ["x=-1.5e3", ["x", -1500]],
    ["flag=true", ["flag", true]],
    ['task="7"', ["task", "7"]],
    ['task="7', ["task", '"7']],
    ['task="a"b"', ["task", '"a"b"']],
    ["id=007", ["id", "007"]],
    ["big=1e999", ["big", "1e999"]],
    ["eq=a=b", ["eq", "a=b"]],
    ["none=", ["none", ""]],
  ])("reads the parameter %s", (spec, parameter) => {
    expect(parseParameter(spec)).toEqual(parameter);
  });

  it("refuses a parameter without a name or value", () => {
    for (const spec of ["task", "=digits"])
      expect(() => parseParameter(spec)).toThrow(`--parameter must be NAME=VALUE; was '${spec}'`);
  });

  it.each([
    ["{", "f: line 1: is not JSON"],
    ["{}", "f: line 1: 'inputs' must be a non-empty array"],
    ['{"inputs":[{"name":"y"}]}', "f: line 1: inputs[0].name must be one of x; was 'y'"],
    ['{"inputs":[{"name":"x"}]}', "inputs[0].shape must be an array"],
    ['\n{"inputs":[{"name":"x","shape":[1,2],"data":[1]}]}', "f: line 2: input 'x' must have 2 elements"],
    [
      '{"inputs":[{"name":"x","shape":[1,2],"data":[1,2]}],"parameters":{"task":null}}',
      "parameter 'task' of f: line 1 must be a string, a number or a boolean, got null",
    ],
    ["\n", "f: holds no requests"],
  ])("refuses the data file %j, naming the line", (text, message) => {
    expect(() => parseDataFile("f", text, metadata("FP32", [1, 2]))).toThrow(message);
  });
});

describe("target", () => {
  it("reads HTTP and gRPC, versions, shares and SLOs", () => {
    expect(parseTarget("http://h:8000/v2/models/a%20b/versions/2#share=2&slo=25")).toEqual({
      url: "http://h:8000/v2/models/a%20b/versions/2",
      protocol: "http",
      origin: "http://h:8000",
      path: "/v2/models/a%20b/versions/2",
      model: "a b",
      version: "2",
      share: 2,
      sloMs: 25,
    });
    expect(parseTarget("grpc://h:8001/emulated/resnet50")).toMatchObject({
      protocol: "grpc",
      origin: "h:8001",
      model: "emulated/resnet50",
      version: "",
    });
    expect(parseTarget("http://h/v2/models/m/infer").path).toBe("/v2/models/m");
  });

  it.each([
    ["nonsense", "must be http://"],
    ["ftp://h/m", "scheme 'ftp://' is not one of"],
    ["grpc://h/m", "needs a port"],
    ["http://h/models/m", "path '/models/m'"],
    ["http://h/v2/models/m#share=-1", "'share' must be a number > 0; was '-1'"],
    ["http://h/v2/models/m#rate=1", "'rate' is not one of share, slo"],
    ["http://u:p@h/v2/models/m", "no user or query"],
  ])("refuses %s", (text, message) => {
    expect(() => parseTarget(text)).toThrow(message);
  });

  const ranged = (datatype: string, specs: string[], name = "x") => {
    const ranges = new Map(specs.map(parseRange));
    const { data } = makeSamples("m", metadata(datatype, [-1, 2000], name), { ...options, ranges })[0]!.tensors[0]!;
    return data.buffer as ArrayBuffer;
  };

  it("random integers lie within the given bounds, both of them drawn; a name goes before all, a mask's too", () => {
    const ids = [...new BigInt64Array(ranged("INT64", ["-3:2"]))].map(Number);
    expect([Math.min(...ids), Math.max(...ids)]).toEqual([-3, 2]);
    expect(new Set(new Int8Array(ranged("INT8", ["-128:127"]))).size).toBeGreaterThan(200);
    expect(new Set(new Uint16Array(ranged("UINT16", ["0:9", "x=65535:65535"])))).toEqual(new Set([65_535]));
    expect(Math.max(...new Uint32Array(ranged("UINT32", ["4294967295:4294967295"])))).toBe(4_294_967_295);
    expect(new Set(new Int32Array(ranged("INT32", ["0:1"], "attention_mask"))).size).toBe(2);
    expect(Math.max(...new Float32Array(ranged("FP32", ["5:9"])))).toBeLessThan(1);
  });

  it.each([
    ["INT8", "0:200", "must be within [-128, 127] of INT8; was 0:200"],
    ["UINT32", "-1:5", "must be within [0, 4294967295] of UINT32; was -1:5"],
    ["FP32", "x=0:5", "must be an input of integers; is FP32"],
    ["INT64", "y=0:5", "--range y: m has no such input; it has x"],
    ["INT64", "5:4", "--range must be NAME=LOW:HIGH or LOW:HIGH, whole numbers with LOW <= HIGH; was '5:4'"],
    ["INT64", "x=0", "was 'x=0'"],
  ])("refuses bounds that an input cannot have: %s %s", (datatype, spec, message) => {
    expect(() => ranged(datatype, [spec])).toThrow(message);
  });
});
