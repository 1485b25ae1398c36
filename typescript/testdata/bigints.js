// BigInt.asIntN and asUintN at all widths around those of machines and of the engine's words, what hashes do with them, and searches in typed arrays.
const values = [0n, 1n, -1n, 2n, -2n, 255n, -256n];
for (const bits of [7n, 8n, 31n, 32n, 33n, 63n, 64n, 65n, 95n, 96n, 97n, 127n, 128n, 129n, 200n]) {
  const p = 2n ** bits;
  values.push(p - 1n, p, p + 1n, -p + 1n, -p, -p - 1n);
}
const widths = [0, 1, 2, 7, 8, 15, 16, 30, 31, 32, 33, 48, 62, 63, 64, 65, 95, 96, 97, 127, 128, 129, 160, 192, 224, 255, 256, 257, 1000];

function fnv(text) { // FNV-1a, 64 bits
  let h = 0xcbf29ce484222325n;
  for (const c of text) h = BigInt.asUintN(64, (h ^ BigInt(c.charCodeAt(0))) * 0x100000001b3n);
  return h.toString(16);
}

function splitmix(seed, n) {
  const out = [];
  for (let i = 0; i < n; i++) {
    seed = BigInt.asUintN(64, seed + 0x9e3779b97f4a7c15n);
    let z = seed;
    z = BigInt.asUintN(64, (z ^ (z >> 30n)) * 0xbf58476d1ce4e5b9n);
    z = BigInt.asUintN(64, (z ^ (z >> 27n)) * 0x94d049bb133111ebn);
    out.push((z ^ (z >> 31n)).toString());
  }
  return out;
}

const error = (fn) => {
  try {
    return String(fn());
  } catch (e) {
    return e.name;
  }
};

// edges searches typed arrays, in both directions, for what lies at the edges of their elements' ranges.
function edges(Typed) {
  const big = Typed.name.startsWith("Big");
  const list = [0, 1, 7, 8, 15, 16, 31, 32, 53, 63, 64].flatMap((bits) => [2n ** BigInt(bits) - 1n, -(2n ** BigInt(bits)), 2n ** BigInt(bits)]).map((v) => (big ? v : Number(v)));
  const typed = Typed.from(list);
  return list.map((v) => [typed.indexOf(v), typed.lastIndexOf(v), typed.includes(v), typed.lastIndexOf(v, -4), typed.at(list.indexOf(v)).toString()].join());
}

export default async function bigints() {
  const out = { fnv: fnv("hello"), splitmix: splitmix(0n, 5), signed: splitmix(-5n, 3) };
  for (const w of widths) out[`u${w}`] = values.map((v) => BigInt.asUintN(w, v).toString());
  for (const w of widths) out[`i${w}`] = values.map((v) => BigInt.asIntN(w, v).toString());
  out.huge = [() => BigInt.asUintN(2 ** 53 - 1, 5n), () => BigInt.asIntN(2 ** 53 - 1, -5n), () => BigInt.asUintN(2 ** 53 - 1, -1n),
    () => BigInt.asUintN(-1, 1n), () => BigInt.asUintN(2 ** 53, 1n), () => BigInt.asUintN(8, 1), () => BigInt.asIntN(8, "300")].map(error);
  out.powers = Array.from({ length: 2098 }, (_, i) => String(2 ** (i - 1074)));
  const b = new BigInt64Array(2), u = new BigUint64Array(b.buffer);
  u[0] = -1n;
  b[1] = 2n ** 63n;
  out.views = [b[0], u[0], b[1], u[1]].map(String);
  for (const Typed of [Int8Array, Uint8Array, Uint8ClampedArray, Int16Array, Uint16Array, Int32Array, Uint32Array, Float32Array, Float64Array, BigInt64Array, BigUint64Array]) {
    out[Typed.name] = edges(Typed);
  }
  return out;
}
