import { describe, expect, it } from "vitest";
import { linearTable, ProfiledLatency } from "../latency/latency.js";
import { OfferTable, type QueueSpec } from "../policy.js";
import { AcceleratorTable } from "../tables/accelerator-table.js";
import { LOOK_BACK, ShadowRoom } from "./shadow-room.js";

const spec: QueueSpec = { latency: new ProfiledLatency(linearTable(1000, 4000, 8)), sloUs: 100_000, lengthMax: 10 };
const NOW = 1_000_000;

function roomOf(count: number) {
  const accelerators = new AcceleratorTable(count);
  const offers = new OfferTable(16);
  for (let id = 0; id < count; id++) accelerators.join(id, 1, 0);
  const room = new ShadowRoom(accelerators, offers);
  const ended = (count: number, slackUs: number): void => {
    for (let request = 0; request < count; request++) {
      room.requestEnded(slackUs);
      room.used(0);
    }
  };
  return { accelerators, offers, room, ended };
}

describe("room for a run that cannot be interrupted", () => {
  it("is on the idle accelerator that is wanted last, not on a slow one", () => {
    const { accelerators, room } = roomOf(3);
    expect(room.idle).toBe(2);
    accelerators.running[2] = 0;
    expect(room.idle).toBe(1);
    accelerators.join(1, 5, 0);
    expect(room.idle).toBe(0);
    accelerators.leave(0);
    accelerators.leave(2);
    accelerators.running[1] = 0;
    expect(room.idle).toBe(-1);
  });

  it("is not known before enough requests have ended", () => {
    const { room, ended } = roomOf(1);
    ended(LOOK_BACK - 1, 90_000);
    expect(room.isFree(0, 10_000, NOW, [spec])).toBe(false);
    ended(1, 90_000);
    expect(room.isFree(0, 10_000, NOW, [spec])).toBe(true);
  });

  it("is twice what it takes in what every one of them had left; one that was given up counts as none", () => {
    const { room, ended } = roomOf(1);
    ended(LOOK_BACK, 20_000);
    expect(room.isFree(0, 10_000, NOW, [spec])).toBe(true);
    expect(room.isFree(0, 10_001, NOW, [spec])).toBe(false);
    room.requestEnded(0);
    expect(room.isFree(0, 1, NOW, [spec])).toBe(false);
    // It is forgotten after as many requests at the least, twice as many at most.
    ended(LOOK_BACK, 20_000);
    expect(room.isFree(0, 1, NOW, [spec])).toBe(false);
    ended(LOOK_BACK, 20_000);
    expect(room.isFree(0, 10_000, NOW, [spec])).toBe(true);
  });

  it("is on an accelerator that none of them needed, however little they had left", () => {
    const { room, ended } = roomOf(2);
    ended(LOOK_BACK, 0);
    expect(room.isFree(0, 10_000, NOW, [spec])).toBe(false);
    expect(room.isFree(1, 10_000, NOW, [spec])).toBe(true);
    room.used(1);
    expect(room.isFree(1, 10_000, NOW, [spec])).toBe(false);
  });

  it("ends before the latest start of all that waits, and leaves a request time that comes of any model", () => {
    const { offers, room, ended } = roomOf(1);
    ended(LOOK_BACK, 90_000);
    offers.size[3] = 1;
    offers.latestAt[3] = NOW + 10_000;
    expect(room.isFree(0, 10_000, NOW, [spec, undefined, spec, spec])).toBe(true);
    offers.latestAt[3] = NOW + 9_999;
    expect(room.isFree(0, 10_000, NOW, [spec, undefined, spec, spec])).toBe(false);
    offers.size[3] = 0;
    expect(room.isFree(0, 10_000, NOW, [spec, { ...spec, sloUs: 15_000 }])).toBe(true);
    expect(room.isFree(0, 10_000, NOW, [spec, { ...spec, sloUs: 14_999 }])).toBe(false);
  });
});
