/** Bins of what is measured of a module: waits in its batches, how long those run, and how many parts a request makes there. */
import type { Scale } from "./bin-counts.js";

/** Of equal width, between the ends. */
const WAIT_BINS = 64;
const LAST_WAIT = WAIT_BINS + 1;

/** Waits in a batch, each relative to the batch's time: in [0, 1], with those of 0 and of 1 apart from what is between. */
export const WAITS: Scale = {
  places: WAIT_BINS + 2,
  placeOf: (wait) => (wait <= 0 ? 0 : wait >= 1 ? LAST_WAIT : 1 + Math.floor(wait * WAIT_BINS)),
  valueAt: (place, part) => (place === 0 ? 0 : place === LAST_WAIT ? 1 : (place - 1 + part) / WAIT_BINS),
};

const LEAST_US = 10;
const MOST_US = 600e6;
/** Each 4.4 % of its lower edge wide. */
const TO_A_DOUBLING = 16;
const TIMES = Math.ceil(TO_A_DOUBLING * Math.log2(MOST_US / LEAST_US));

/** Times from 10 µs to 10 minutes; what is beyond counts as these. */
export const TIMES_US: Scale = {
  places: TIMES,
  placeOf: (us) => Math.min(TIMES - 1, Math.floor(TO_A_DOUBLING * Math.log2(Math.max(us, LEAST_US) / LEAST_US))),
  valueAt: (place, part) => LEAST_US * 2 ** ((place + part) / TO_A_DOUBLING),
};

/** Numbers of parts up to here have a bin each, those up to 2^(4 + 6) an eighth of a doubling. */
const EXACT = 16;
const OCTAVES = 6;
const TO_AN_OCTAVE = 8;

/** Numbers of parts; a bin stands for the least in it. */
export const PARTS: Scale = {
  places: EXACT + OCTAVES * TO_AN_OCTAVE,
  placeOf(parts) {
    if (parts < EXACT) return parts;
    const octave = Math.min(OCTAVES, Math.floor(Math.log2(parts)) - 3) - 1;
    const step = Math.floor((parts / (EXACT << octave) - 1) * TO_AN_OCTAVE);
    return EXACT + octave * TO_AN_OCTAVE + Math.min(TO_AN_OCTAVE - 1, step);
  },
  valueAt(place) {
    if (place < EXACT) return place;
    const octave = Math.floor((place - EXACT) / TO_AN_OCTAVE);
    const step = (place - EXACT) % TO_AN_OCTAVE;
    return Math.ceil((EXACT << octave) * (1 + step / TO_AN_OCTAVE));
  },
};
