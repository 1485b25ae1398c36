// What the host reads as the time of a sleep (abi/instant.go), for tests under Node.
import { longest, longestText, milliseconds } from "./duration.js";
import { lasting, quoted } from "./hosttext.js";

const rfc3339 = /^(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))$/;
const date = /\d{4}-|\d-\d{4}/; // has a year beside a hyphen
const ahead = "counted from now it leads beyond the end of year 9999";

// sleepEnd returns when a sleep ends that begins now: its text is a duration or an instant. Refused is what code and message say.
export function sleepEnd(text, now) {
  try {
    if (date.test(text)) return { at: instant(text) };
    const at = now + hostDuration(text, true);
    return at > longest ? { code: "INVALID_DURATION", message: `invalid duration ${quoted(text)}: ${ahead}` } : { at };
  } catch (e) {
    return { code: date.test(text) ? "INVALID_DATE" : "INVALID_DURATION", message: e.message };
  }
}

// hostDuration is milliseconds of a text, with the error of a host.
export function hostDuration(text, up = false) {
  const n = new TextEncoder().encode(text).length, wrong = (why) => new RangeError(`invalid duration ${quoted(text)}: ${why}`);
  if (n > longestText) throw wrong(`it has ${n} bytes, the limit is ${longestText}`);
  try {
    return milliseconds(text, up);
  } catch (e) {
    throw wrong(/^a duration must be/.test(e.message) ? `it leads beyond year 9999, the limit is ${lasting(longest)}`
      : "it should look like 1h30m, 1.5h, 7d or PT5M (units ms s m h d w, no spaces)");
  }
}

function instant(text) {
  const wrong = (why) => new RangeError(`invalid instant ${quoted(text)}: ${why}`), n = new TextEncoder().encode(text).length;
  if (n > longestText) throw wrong(`it has ${n} bytes, the limit is ${longestText}`);
  const [, day, hour, minute, second, fraction = "", sign, zoneHour = 0, zoneMinute = 0] = rfc3339.exec(text) || [];
  const begins = Date.parse(`${day}T00:00:00Z`);
  if (!day || Number.isNaN(begins) || new Date(begins).toISOString().slice(0, 10) !== day || hour > 23 || minute > 59 || second > 59 ||
    zoneHour > 24 || zoneMinute > 60) {
    throw wrong("it should look like 2030-01-31T09:00:00Z (RFC 3339)");
  }
  const zone = (Number(zoneHour) * 60 + Number(zoneMinute)) * (sign === "-" ? -60_000 : 60_000);
  const part = Number(fraction.slice(0, 3).padEnd(3, "0")) + (/[1-9]/.test(fraction.slice(3)) ? 1 : 0); // rounded up: nobody wakes before
  const at = begins + ((Number(hour) * 60 + Number(minute)) * 60 + Number(second)) * 1000 + part - zone;
  if (at > longest) throw wrong("it is beyond the end of year 9999 (UTC)");
  return at;
}
