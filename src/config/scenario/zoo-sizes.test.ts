import { expect, it } from "vitest";
import { ZOO } from "./zoo.js";
import { zooMemoryMb } from "./zoo-sizes.js";

it("every model of both zoos has a size; ResNet50's 25.6 million parameters are 102.4 MB", () => {
  for (const { name } of [...ZOO["1080ti"], ...ZOO.a100]) expect(zooMemoryMb(name), name).toBeGreaterThan(0);
  expect(zooMemoryMb("ResNet50")).toBeCloseTo(102.4, 9);
  expect(zooMemoryMb("ResNet51")).toBeNull();
});
