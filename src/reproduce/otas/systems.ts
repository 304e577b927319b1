/** What OTAS is compared with. A system that has several settings shows its best. */
import type { Choice } from "../point.js";
import { GAMMAS } from "./vision-transformer.js";

export interface OtasSystem {
  readonly name: string;
  readonly settings: readonly Setting[];
}

export interface Setting {
  /** What tells it from the others of its system; "" where there is one. */
  readonly label: string;
  readonly choice: Choice;
}

const setting = (label: string, policy: string, options: Choice["options"] = {}): Setting => ({
  label,
  choice: { policy, options },
});

export const OTAS: OtasSystem = { name: "OTAS", settings: [setting("", "otas")] };
/** Past the paper, and how `auto` serves elastic models. */
export const PLUS: OtasSystem = { name: "OTAS+", settings: [setting("", "otas+")] };
/** As OTAS's text has them: who has expired is evicted. */
export const PETS: OtasSystem = { name: "PetS", settings: [setting("", "pets", { evict: "expired" })] };
export const INFAAS: OtasSystem = { name: "INFaaS", settings: [setting("", "infaas", { evict: "expired" })] };
/** Equal care: who would end late is evicted, as under OTAS. */
export const PETS_LATE: OtasSystem = {
  name: "PetS, late evicted",
  settings: [setting("", "pets", { evict: "late" })],
};
export const INFAAS_LATE: OtasSystem = {
  name: "INFaaS, late evicted",
  settings: [setting("", "infaas", { evict: "late" })],
};
/** The paper does not say how many tokens its ToMe merges. */
export const TOME: OtasSystem = {
  name: "ToMe",
  settings: [20, 15].map((r) => setting(`r = ${r}`, "tome", { r })),
};
export const VPT: OtasSystem = { name: "VPT", settings: [setting("p = 2", "vpt", { p: 2 })] };

const DISPATCH = ["deferred", "eager"] as const;
export const FIXED: OtasSystem = {
  name: "best fixed gamma",
  settings: GAMMAS.flatMap((gamma) =>
    DISPATCH.map((dispatch) => setting(`${gamma}, ${dispatch}`, "fixed-gamma", { gamma, dispatch })),
  ),
};
export const DEFERRED: OtasSystem = {
  name: "deferred, gamma 0",
  settings: [setting("", "fixed-gamma", { gamma: 0, dispatch: "deferred" })],
};
export const QUEUE: OtasSystem = {
  name: "gamma by queue",
  settings: DISPATCH.flatMap((dispatch) =>
    [0.1, 0.25, 0.5].map((part) => setting(`${part} SLO, ${dispatch}`, "queue-gamma", { wait_part: part, dispatch })),
  ),
};

/** The paper's own. */
export const PUBLISHED: readonly OtasSystem[] = [OTAS, PETS, INFAAS, TOME, VPT];
/** What an engineer would try first. */
export const SIMPLE: readonly OtasSystem[] = [FIXED, DEFERRED, QUEUE];
export const ALL: readonly OtasSystem[] = [...PUBLISHED, PETS_LATE, INFAAS_LATE, ...SIMPLE, PLUS];
