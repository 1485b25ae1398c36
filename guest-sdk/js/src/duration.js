const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };
const pairs = /(\d+)(?:\.(\d+))?(ms|[smhdw])/g;
const textForm = /^(\d+(ms|[smhdw]))*\d+(\.\d+)?(ms|[smhdw])$/;
const isoForm = /^P(?=.)(\d+(\.\d+)?W)?(\d+(\.\d+)?D)?(T(?=.)(\d+(\.\d+)?H)?(\d+(\.\d+)?M)?(\d+(\.\d+)?S)?)?$/;

// longestText is the longest text of a duration or instant, in bytes.
export const longestText = 64;

// longest is the longest duration, and the last instant: the end of year 9999.
export const longest = 253_402_300_799_999;

// shown returns a value for a message.
export function shown(v) {
  return typeof v === "string" ? JSON.stringify(v) : v instanceof Date ? "an invalid Date" : typeof v === "object" && v !== null ? JSON.stringify(v) : String(v);
}

// milliseconds returns the length of a duration: a number of milliseconds, or a text such as "1h30m" or "PT5M". The host reads the
// texts of sleeps and options itself (abi/duration.go); this is for what it takes as a number, and reads the same texts.
// up rounds a fraction of a millisecond of a text up, as a sleep does, in place of to the nearest one.
export function milliseconds(v, up = false) {
  if (typeof v === "number") return inRange(v, v);
  const text = String(v);
  const short = text.length <= longestText;
  const iso = short && isoForm.test(text) && !/\..*[A-Z]./.test(text); // decimals belong to the last part
  if (!iso && !(short && textForm.test(text))) {
    throw new RangeError(`a duration is a number and a unit (ms, s, m, h, d, w), such as "5s" or "1h30m", got ${shown(v)}`);
  }
  let total = 0;
  for (const [, whole, fraction = "", unit] of (iso ? text.slice(1).replace("T", "").toLowerCase() : text).matchAll(pairs)) {
    total += scale(whole, fraction, units[unit], up);
  }
  return inRange(total, v);
}

// scale returns whole.fraction times a length, rounded half up, or up, digit by digit: numbers with decimals are not exact.
function scale(whole, fraction, length, up) {
  let twice = 0, exact = true;
  for (let i = fraction.length - 1; i >= 0; i--) {
    const more = twice + Number(fraction[i]) * 2 * length;
    twice = Math.floor(more / 10);
    exact &&= more % 10 === 0;
  }
  if (up && !exact && twice % 2 === 0) twice++;
  return Number(whole) * length + Math.floor((twice + 1) / 2);
}

function inRange(ms, v) {
  if (ms >= 0 && ms <= longest) return ms;
  throw new RangeError(`a duration must be a number of milliseconds from 0 to ${longest}, got ${shown(v)}`);
}
