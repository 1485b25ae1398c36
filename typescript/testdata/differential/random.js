// Numbers that a seed determines, alike in all engines.
export class Random {
  constructor(seed) {
    this.s = (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ 0x5bd1e995) >>> 0 || 1;
    for (let i = 0; i < 8; i++) this.next();
  }
  next() {
    let s = this.s;
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    return (this.s = s >>> 0);
  }
  int(n) { return this.next() % n; }
  from(a, b) { return a + this.int(b - a + 1); }
  pick(list) { return list[this.int(list.length)]; }
  chance(n) { return this.int(n) === 0; } // one in n
  many(n, fn) { return Array.from({ length: n }, (_, i) => fn(i)); }
  some(least, most, fn) { return this.many(this.from(least, most), fn); }
}
