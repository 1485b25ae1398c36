const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

// longest is the longest duration, and the last instant: the end of year 9999.
export const longest = 253_402_300_799_999;

// shown returns a value for a message.
export function shown(v) {
  return typeof v === "string" ? JSON.stringify(v) : v instanceof Date ? "an invalid Date" : typeof v === "object" && v !== null ? JSON.stringify(v) : String(v);
}

// milliseconds returns the length of a duration: a number of milliseconds, or a text such as "1h30m". The host reads the texts of
// sleeps and options itself; this is for what it takes as a number.
export function milliseconds(v) {
  if (typeof v === "number") return inRange(v, v);
  let left = String(v), total = 0, part;
  while ((part = /^(\d+(?:\.\d+)?)(ms|[smhdw])/.exec(left))) {
    total += Number(part[1]) * units[part[2]];
    left = left.slice(part[0].length);
    if (part[1].includes(".") && left !== "") break;
  }
  if (left !== "" || v === "") {
    throw new RangeError(`a duration is a number and a unit (ms, s, m, h, d, w), such as "5s" or "1h30m", got ${shown(v)}`);
  }
  return inRange(total, v);
}

function inRange(ms, v) {
  if (ms >= 0 && ms <= longest) return ms;
  throw new RangeError(`a duration must be a number of milliseconds from 0 to ${longest}, got ${shown(v)}`);
}
