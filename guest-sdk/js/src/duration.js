const units = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

// milliseconds returns the length of a duration: a number of milliseconds, or a text such as "1h30m". The host reads the texts of
// sleeps and options itself; this is for what it takes as a number.
export function milliseconds(v) {
  if (typeof v === "number") {
    if (!(v >= 0)) throw new RangeError(`a duration must be a number of milliseconds from 0 on, got ${v}`);
    return v;
  }
  let left = String(v), total = 0, part;
  while ((part = /^(\d+(?:\.\d+)?)(ms|[smhdw])/.exec(left))) {
    total += Number(part[1]) * units[part[2]];
    left = left.slice(part[0].length);
    if (part[1].includes(".") && left !== "") break;
  }
  if (left !== "" || v === "") {
    throw new RangeError(`a duration is a number and a unit (ms, s, m, h, d, w), such as "5s" or "1h30m", got ${JSON.stringify(v)}`);
  }
  return total;
}
